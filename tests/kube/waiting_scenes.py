"""Native pods that wait, each for another reason: what is so before, and the code that is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from deploy.kube import nodes
from shared.core.model.reason import Reason
from tests.kube.malformed_pods import POOL, asks, with_gpus

ROOMY: Final = nodes.node_name(48)
"""GPUs by a device plugin."""
WITH_MIG: Final = nodes.node_name(50)
OTHER: Final = "other"
"""A flavor of other products."""
UNLIMITED: Final = 1 << 62
OF_TWO: Final = {
    "labels": {"muster.dev/group": "two"},
    "annotations": {"muster.dev/group-size": "2"},
}


@dataclass(frozen=True, kw_only=True)
class WaitingScene:
    """The pod `waits` is the last that is made."""

    code: str
    before: tuple[Mapping[str, Any], ...] = ()
    """Specs of pods that run before."""
    ahead: tuple[Mapping[str, Any], ...] = ()
    """Specs of pods that wait, too."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Of the pod that waits."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Of the pods ahead and of the one that waits."""
    queue: Mapping[str, Any] | None = None
    """Fields of a queue that all of them name; None: the team's own."""
    team: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the team's document meanwhile."""
    node: str = ""
    """The only one of its pool."""
    cordoned: bool = False
    command: str = ""
    """To the workload, once it waits for quota."""
    then: Mapping[str, Any] | None = None
    """Fields of the queue from then on."""


def _queue(gpus: int = 1, flavor: str = "default", **fields: Any) -> dict[str, Any]:
    nominal = {"gpu_milli": 1_000 * gpus, "cpu_milli": UNLIMITED, "memory_mib": UNLIMITED}
    return {"flavors": [{"flavor": flavor, "nominal": nominal}], **fields}


def _on(node: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {**spec, "nodeSelector": {POOL: node}}


def _gpus(count: int) -> dict[str, Any]:
    return _on(ROOMY, {"containers": [with_gpus(count)]})


def _mig(profile: str, count: int) -> dict[str, Any]:
    return _on(WITH_MIG, asks(**{f"nvidia.com/mig-{profile}": str(count)}))


SCENES: Final = {
    "quota": WaitingScene(code=Reason.WAITING_FOR_QUOTA, queue=_queue(), before=({},)),
    "too-large": WaitingScene(
        code=Reason.EXCEEDS_QUOTA, queue=_queue(2), before=({},),
        spec={"containers": [with_gpus(2)]}, then=_queue(),
    ),
    "held-queue": WaitingScene(code=Reason.QUEUE_HELD, queue=_queue(held=True)),
    "budget": WaitingScene(
        code=Reason.BUDGET_SPENT, team={"budget": {"gpu_hours_per_month": 0, "at_limit": "stop"}}
    ),
    "strict": WaitingScene(
        code=Reason.BEHIND_HEAD, queue=_queue(strict=True), before=({},), ahead=({},)
    ),
    "product": WaitingScene(
        code=Reason.NO_MATCHING_NODE, queue=_queue(), before=({},),
        spec={"nodeSelector": {"nvidia.com/gpu.product": nodes.PRODUCT}},
        then=_queue(flavor=OTHER),
    ),
    "room": WaitingScene(
        code=Reason.NO_CAPACITY, node=ROOMY, before=(_gpus(8),), spec=_gpus(1)
    ),
    "gang": WaitingScene(
        code=Reason.GANG_SHORT, node=ROOMY, before=(_gpus(4),), ahead=(_gpus(4),), spec=_gpus(4),
        metadata=OF_TWO,
    ),
    "mig": WaitingScene(
        code=Reason.NO_MIG_POSITION, node=WITH_MIG, before=(_mig("4g.40gb", 8),),
        spec=_mig("4g.40gb", 1),
    ),
    "out": WaitingScene(
        code=Reason.NODES_UNHEALTHY, node=ROOMY, cordoned=True, spec=_gpus(1)
    ),
    "held": WaitingScene(code=Reason.HELD, queue=_queue(), before=({},), command="hold"),
    "rejected": WaitingScene(
        code="Rejected", metadata={"labels": {"muster.dev/queue": "not-ours"}}
    ),
}  # fmt: skip
"""By name."""
