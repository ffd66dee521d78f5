"""What preemption remembers of each thing: the records of its journal."""

from __future__ import annotations

from typing import Final

import msgspec

from shared.core.model.lifecycle import State
from shared.core.model.nouns import Node, Placement, PodSet, Workload
from shared.core.model.value import replace


class PreemptorRequest(msgspec.Struct, array_like=True, frozen=True):
    """What a workload asks for, and in which flavors it may be tried."""

    workload: Workload
    nomination: int
    order_key: tuple[int, ...]
    flavors: tuple[str, ...]
    within_nominal: bool = False
    """Its queue may not borrow for it."""


class ToldObstacle(msgspec.Struct, array_like=True, frozen=True):
    """Why no victim is found for a workload, as it was told last, and when."""

    obstacle: str
    at_ms: int
    retry_at_ms: int = 0


class Stand(msgspec.Struct, array_like=True):
    """Where placement has it; `running_at_ms` is 0 unless it runs."""

    state: State
    version: int
    attempt: int
    priority: int
    running_at_ms: int = 0
    refused: bool = False
    """Refused for a reason that eviction could solve, and not placed since."""
    priority_class: str = ""
    """Given since it was queued; "" for none."""
    told: ToldObstacle | None = None
    """Since this version, and since its last plan."""


class KnownNode(msgspec.Struct, array_like=True, frozen=True):
    """A node; None before it is reported, and once it is gone, so that old news stays old."""

    generation: int
    node: Node | None
    cordoned: bool = False
    """By placement, whatever its agent says."""
    shunned: bool = False
    """By placement, as work did not start there."""


UNKNOWN: Final = KnownNode(-1, None)


class Flight(msgspec.Struct, array_like=True, frozen=True):
    """A plan without an end yet. `placement` is where the preemptor will be."""

    plan_id: str
    workload_id: str
    victims: dict[str, int]
    """By id, how many of its pods a victim keeps."""
    placement: Placement
    proposed_at_ms: int
    losses: dict[str, int] = {}
    """By team, what the victims lose, GPU-milliseconds; empty once it is written down as lost."""

    @property
    def moves(self) -> bool:
        """Whether it is for a workload that goes on elsewhere, not for a preemptor."""
        return self.plan_id.endswith(f"/{self.workload_id}")


def lean(workload: Workload) -> Workload:
    """Without what says nothing about where it may run."""
    spec = workload.spec
    if not spec.labels and not any(map(_is_rich, spec.pod_sets)):
        return workload
    pod_sets = tuple(
        replace(one, image="", weights="", command=(), environment={}, secrets=(), volumes=())
        for one in spec.pod_sets
    )
    return replace(workload, spec=replace(spec, pod_sets=pod_sets, labels={}))


def _is_rich(one: PodSet) -> bool:
    told = (one.image, one.weights, one.command, one.environment, one.secrets, one.volumes)
    return any(told)
