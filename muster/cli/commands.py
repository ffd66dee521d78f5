"""The function of each command; its module is loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

_FUNCTIONS: Final = {"exec": "execute"}
"""Where it is not called as its command."""


def command(name: str) -> Callable[..., Any]:
    """The function behind `muster NAME`."""
    function: Callable[..., Any] = getattr(_module(name), _FUNCTIONS.get(name, name))
    return function


def _module(name: str) -> ModuleType:
    match name:
        case "status" | "queue":
            from muster.cli import workloads

            return workloads
        case "cancel" | "hold" | "release" | "reprioritise" | "resize":
            from muster.cli import control

            return control
        case "logs" | "exec":
            from muster.cli import pods

            return pods
        case "submit":
            from muster.cli import submission

            return submission
        case _:
            return _of_its_name(name)


def _of_its_name(name: str) -> ModuleType:  # noqa: C901, PLR0911, PLR0912  # one for each module
    match name:
        case "run":
            from muster.cli import running

            return running
        case "wait":
            from muster.cli import wait

            return wait
        case "why":
            from muster.cli import why

            return why
        case "eta":
            from muster.cli import eta

            return eta
        case "notifications":
            from muster.cli import notifications

            return notifications
        case "preemptions":
            from muster.cli import preemptions

            return preemptions
        case "usage":
            from muster.cli import usage

            return usage
        case "rightsize":
            from muster.cli import rightsize

            return rightsize
        case "report":
            from muster.cli import report

            return report
        case "nodes":
            from muster.cli import nodes

            return nodes
        case "events":
            from muster.cli import events

            return events
        case "quota":
            from muster.cli import quota

            return quota
        case "whoami":
            from muster.cli import whoami

            return whoami
        case _:
            raise AssertionError(name)
