"""What a NotReady node is: one that rests and may come back, or one that is lost.

A kubelet that restarts is NotReady for a minute and its pods run on: nothing new starts there, and
nothing is evicted. After `lost_after_ms` the node is lost, and what ran there is placed elsewhere.
A node with the taint `node.kubernetes.io/out-of-service` is lost at once: an operator vouches that
nothing runs there any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from shared.core.model.value import Value

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


class Readiness(Value, frozen=True, kw_only=True):
    """The condition Ready of a node; `since_ms` is when it became so, 0 if that is not told."""

    ready: bool = False
    since_ms: int = 0
    reason: str = ""
    message: str = ""


class NodeStanding(StrEnum):
    """Whether work may start, run on, or must go elsewhere."""

    READY = "ready"
    RESTING = "resting"
    """Nothing starts there; what runs there is left alone."""
    LOST = "lost"


class Judgement(NamedTuple):
    """How a node stands, why, and when to look again (Unix milliseconds; None: at a change)."""

    standing: NodeStanding
    reason: str
    until_ms: int | None = None


def judge(
    readiness: Readiness, taints: Iterable[str], *, now_ms: int, ready_ms: int, lost_after_ms: int
) -> Judgement:
    """`taints` by their keys; `ready_ms`: when the node was last seen ready, 0 for never.

    A time of the API server that lies in the future counts as now, and one from before the node
    was seen ready as that moment: clocks that differ make no wait shorter than was promised.
    """
    if OUT_OF_SERVICE in taints:
        return Judgement(NodeStanding.LOST, f"the taint {OUT_OF_SERVICE}")
    if readiness.ready:
        return Judgement(NodeStanding.READY, "")
    since_ms = max(min(readiness.since_ms, now_ms), ready_ms)
    lost_at_ms = since_ms + lost_after_ms
    words = ": ".join(filter(None, (readiness.reason, readiness.message))) or "no condition Ready"
    if now_ms < lost_at_ms:
        return Judgement(NodeStanding.RESTING, f"NotReady: {words}", lost_at_ms)
    return Judgement(
        NodeStanding.LOST, f"NotReady for more than {lost_after_ms // 1000} s: {words}"
    )
