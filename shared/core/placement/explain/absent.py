"""Nodes that would match and are shunned, or out: waiting work is told how many."""

from __future__ import annotations

from shared.core.model.decision import Refusal
from shared.core.model.value import replace
from shared.core.model.wording import count
from shared.core.placement.explain.survey import Survey
from shared.core.placement.feasibility import Filter


def with_absent(refusal: Refusal, found: Survey) -> Refusal:
    """`refusal` with the nodes that would match and on which nothing starts, if there are any."""
    shunned, out = found.excluded.get(Filter.SHUNNED, 0), found.matching - found.open
    message, evidence = refusal.message, refusal.evidence
    if out:
        message += f" {_more(out)} cordoned, not ready or unhealthy."
        evidence = evidence | {"nodes_matching": found.matching, "nodes_open": found.open}
    if shunned:
        why = "as nothing started there lately or no agent is heard"
        message += f" {_more(shunned)} in quarantine, {why}."
        evidence = evidence | {f"nodes_excluded_{Filter.SHUNNED.value}": shunned}
    return replace(refusal, message=message, evidence=evidence)


def _more(nodes: int) -> str:
    return f"{count(nodes, 'node')} more {'are' if nodes > 1 else 'is'}"
