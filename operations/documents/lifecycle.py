"""docs/lifecycle.md: the states of a workload, drawn from the one table in model/lifecycle.py."""

from __future__ import annotations

from typing import Final

from shared.core.model.lifecycle import HOLDING, TERMINAL, TRANSITIONS, State

HEADER: Final = """\
<!-- Generated from shared/core/model/lifecycle.py by `make generated`: change that. -->

# The life of a workload

A version counts the transitions: `received` is 0, each transition adds one. Admission decides the
first; placement is the only writer of all others. Devices and quota are held from `placed` until
the pods are seen gone, and never in another state.

"""


def render() -> str:
    """The text of the document."""
    return HEADER + _diagram() + "\n" + _table()


def _diagram() -> str:
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {State.RECEIVED}"]
    lines += [f"    {one} --> {after}" for one in State for after in _after(one)]
    lines += [f"    {one} --> [*]" for one in State if one in TERMINAL]
    return "\n".join([*lines, "```", ""])


def _table() -> str:
    lines = ["| State | Holds devices | Next |", "|---|---|---|"]
    for one in State:
        holds = "yes" if one in HOLDING else "no"
        after = ", ".join(_after(one)) or "(the end)"
        lines.append(f"| {one} | {holds} | {after} |")
    return "\n".join([*lines, ""])


def _after(state: State) -> list[str]:
    return [one.value for one in State if one in TRANSITIONS[state]]
