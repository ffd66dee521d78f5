"""Commands of placement to the binder, and the binder's facts about pods.

Pods are named `<workload id>-<attempt>-<rank>`; every message names the attempt, so that a late
fact of an earlier attempt only releases what that attempt held.
"""

from __future__ import annotations

from shared.core.model import Placement, PodSet
from shared.events.workloads import Wire


class BindWorkload(Wire, frozen=True, kw_only=True):
    """Create and bind all pods of one attempt, or none."""

    workload_id: str
    team: str
    attempt: int
    epoch: int
    placement: Placement
    pod_sets: tuple[PodSet, ...]
    expected_duration_seconds: int | None = None
    cell: int = 0


class EvictPods(Wire, frozen=True, kw_only=True):
    """Stop and delete all pods of one attempt; answered by `PodsGone` when none is left."""

    workload_id: str
    attempt: int
    epoch: int
    reason: str
    grace_seconds: int = 30
    cell: int = 0


class PodFact(Wire, frozen=True, kw_only=True):
    """What all pod facts share."""

    workload_id: str
    attempt: int
    at_ms: int
    cell: int = 0


class PodsBound(PodFact, frozen=True, kw_only=True):
    """All pods of the attempt are created and bound."""


class PodsRunning(PodFact, frozen=True, kw_only=True):
    """All pods of the attempt run; implies bound."""


class PodsFinished(PodFact, frozen=True, kw_only=True):
    """All pods of the attempt are terminal and their devices free."""

    succeeded: bool
    reason: str = ""
    message: str = ""


class PodsGone(PodFact, frozen=True, kw_only=True):
    """No pod of the attempt exists any more; answers an eviction.

    `succeeded` is true when all of them had ended well before they were deleted.
    """

    succeeded: bool = False


class BindRefused(PodFact, frozen=True, kw_only=True):
    """The cluster refused a pod; every pod of the attempt has been deleted again."""

    reason: str
    message: str
    node: str = ""
