"""When a node on which nothing starts is left alone, and for how long.

A node may be ready and yet start nothing: its registry mirror is broken, its device plugin wedged,
a mount stale. All that shows is work that was placed there and did not run in time, and such work
may be at fault itself. So a node is accused by witnesses, and each speaks only once:

- work of one team with one image speaks as one witness, however much of it did not start: it may
  be the image that is broken;
- a workload that did not start here and then started elsewhere is a witness of its own.

`WITNESSES_MIN` witnesses without a start on the node in between: it is shunned, for the shortest
time at first. Afterwards one new witness is enough, and the time doubles up to the longest. One
start there and all is forgotten. No more than a part of a flavor is shunned at once: what keeps
more nodes than that from starting work is not the nodes.

Source: outlier detection as in service meshes (growing ejection times, a largest share ejected).
"""

from __future__ import annotations

from typing import Final

from shared.core.model.value import Value, replace

WITNESSES_MIN: Final = 2
REMEMBERED_MAX: Final = 16
"""Witnesses kept of one node; the oldest are forgotten."""
DOUBLINGS_MAX: Final = 20
SILENT_SECONDS: Final = 86_400
"""So long a node whose agent is silent is left alone, should it never be told that it is heard."""


class ShunPolicy(Value, frozen=True, kw_only=True):
    """How long and how much is shunned at most; `seconds` 0 for never."""

    seconds: int = 60
    seconds_max: int = 3_600
    percent_max: int = 25
    """Of the nodes of a flavor; one at least, but never all."""


DEFAULTS: Final = ShunPolicy()
REST_AFTER_REFUSAL: Final = ShunPolicy(seconds=30, seconds_max=600)
"""How long a node is left alone after its kubelet refused a pod: the kubelet knows best, so one
refusal is enough, and what it lacks may soon be there."""


class Witness(Value, frozen=True, kw_only=True):
    """A workload that did not start, and the voice by which it counts."""

    workload_id: str
    voice: str


class Suspicion(Value, frozen=True, kw_only=True):
    """What speaks against one node since the last start there."""

    node: str
    witnesses: tuple[Witness, ...] = ()
    """Heard since it was shunned last."""
    heard: tuple[str, ...] = ()
    """Voices for which it was shunned before."""
    rounds: int = 0
    """How often it was shunned without a start in between."""
    since_ms: int = 0
    until_ms: int = 0
    """0 while it may be tried."""
    silent: bool = False
    """Whether its agent is not heard."""


def accused(one: Suspicion, witness: Witness) -> Suspicion:
    """Another workload did not start there."""
    others = (each for each in one.witnesses if each.workload_id != witness.workload_id)
    return replace(one, witnesses=(*others, witness)[-REMEMBERED_MAX:])


def confirmed(one: Suspicion, workload_id: str) -> Suspicion:
    """A witness started elsewhere, so it speaks for itself."""
    witnesses = (
        replace(each, voice=workload_id) if each.workload_id == workload_id else each
        for each in one.witnesses
    )
    return replace(one, witnesses=tuple(witnesses))


def guilty(one: Suspicion) -> bool:
    """Whether enough new voices speak against it."""
    voices = {each.voice for each in one.witnesses} - set(one.heard)
    return len(voices) >= (1 if one.rounds else WITNESSES_MIN)


def shunned(one: Suspicion, policy: ShunPolicy, now_ms: int) -> Suspicion:
    """It is left alone from now on."""
    heard = dict.fromkeys((*one.heard, *(each.voice for each in one.witnesses)))
    return replace(
        one,
        witnesses=(),
        heard=tuple(heard)[-REMEMBERED_MAX:],
        rounds=one.rounds + 1,
        since_ms=now_ms,
        until_ms=now_ms + 1000 * seconds_of(one.rounds, policy),
    )


def silenced(one: Suspicion, now_ms: int) -> Suspicion:
    """Its agent is not heard: it is left alone until it is, or for a day."""
    until_ms = now_ms + SILENT_SECONDS * 1000
    return replace(one, silent=True, since_ms=now_ms, until_ms=until_ms)


def seconds_of(rounds: int, policy: ShunPolicy) -> int:
    """How long a node is shunned that was shunned `rounds` times before."""
    return min(policy.seconds << min(rounds, DOUBLINGS_MAX), policy.seconds_max)


def nodes_max(nodes: int, policy: ShunPolicy) -> int:
    """How many of the `nodes` of a flavor may be shunned at once."""
    return min(max(1, nodes * policy.percent_max // 100), nodes - 1)
