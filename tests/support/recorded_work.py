"""Philly and Kalos on a small fleet, made to fight: what they submit, when, and whose it is.

The traces tell neither priority nor who could shrink, and their clusters were larger than any that
fits on one machine. So a seed draws some of their workloads, classes and elastic gangs; the gangs
of Kalos are cut in proportion; arrivals are scaled to a window, and run times so that they ask for
`load` times the GPUs that there are. Pure, but for reading the traces.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from operations.replay.fleet import Fleet
from operations.replay.recorded import (
    Recorded,
    RecordedTrace,
    data_folder,
    read_recorded,
    spec_of,
)
from operations.replay.scaled import documents_of
from shared.core.model.nouns import PodSet, WorkloadSpec
from shared.core.model.value import replace

GPUS_OF_A_NODE: Final = 8
SPOT: Final = "spot"
KALOS_NODES: Final = 128
"""Nodes of the largest gang of Kalos; it shall take a quarter of our fleet."""
GANGS_PER_WORKLOAD: Final = 15
"""So many workloads of Philly come with one gang of Kalos."""
RUN_SECONDS_MAX: Final = 12
CLASSES: Final = {"training-batch": 67, "training-interactive": 30, "inference-production": 3}
"""Shares; the last is protected."""
POLICY: Final = {"min_runtime_seconds": 2, "cooldown_seconds": 10}
STRICT_EVERY: Final = 4
"""Of so many queues one is strict: there a head with a reservation is looked at again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """How large: `philly` workloads and their gangs within `seconds`, on `nodes` machines."""

    seconds: float
    nodes: int
    philly: int
    load: float
    seed: int

    @property
    def gpus(self) -> int:
        """Of the whole fleet."""
        return self.nodes * GPUS_OF_A_NODE


def fleet_file(scene: Scene) -> dict[str, Any]:
    """The fleet as its simulator reads it: three quarters are owned, one is a spot market's."""
    spot = max(1, scene.nodes // 4)
    one = {"product": "H100-SXM5-80GB", "gpus": GPUS_OF_A_NODE, "gpu_memory_mib": 81_559}
    return {
        "groups": [
            {"name": "h100", "flavor": "h100", "count": scene.nodes - spot, **one},
            {"name": SPOT, "flavor": SPOT, "count": spot, **one},
        ]
    }


def scene_work(scene: Scene) -> tuple[RecordedTrace, dict[str, WorkloadSpec]]:
    """Both traces as one in milliseconds of the window, and the spec of each by its name."""
    philly, kalos = (read_recorded(one, data_folder()) for one in ("philly", "kalos"))
    random_ = random.Random(scene.seed)
    found = _in_window(_drawn(philly, scene.philly, random_), scene)
    gangs = _drawn(kalos, scene.philly // GANGS_PER_WORKLOAD, random_)
    found += _in_window([_cut(one, scene) for one in gangs], scene)
    works = sorted(_loaded(found, scene), key=lambda one: one.at_ms)
    cohorts = {"recorded": ("", ()), **philly.cohorts, **kalos.cohorts}
    for top in ("philly", "acme"):
        cohorts[top] = ("recorded", cohorts[top][1])
    nodes = {**philly.nodes, "kalos": sum(philly.nodes.values()) // 2}
    trace = RecordedTrace(name="both", workloads=tuple(works), nodes=nodes, cohorts=cohorts)
    return trace, {one.name: _spec(one, random_) for one in works}


def scene_documents(trace: RecordedTrace, fleet: Fleet) -> Iterator[tuple[str, str, Any]]:
    """(collection, name, body): teams may use every class; queues preempt after two seconds."""
    strict = sorted(trace.nodes)[::STRICT_EVERY]
    for collection, name, body in documents_of(trace, fleet):
        if collection == "flavors":
            yield collection, name, {**body, "spot": name == SPOT}
        elif collection == "teams":
            yield collection, name, {**body, "priority_classes": list(CLASSES)}
        elif collection == "queues":
            yield collection, name, {**body, "policy": POLICY, "strict": name in strict}
        else:
            yield collection, name, body


def offered_gpu_seconds(works: Sequence[Recorded]) -> float:
    """What all of them would hold."""
    return sum(one.pods * one.gpus * one.run_ms for one in works) / 1_000


def _drawn(trace: RecordedTrace, count: int, random_: random.Random) -> list[Recorded]:
    """So many of the whole trace, in their order: in a row they would be of one or two teams."""
    places = sorted(random_.sample(range(len(trace.workloads)), count))
    return [trace.workloads[one] for one in places]


def _in_window(works: Sequence[Recorded], scene: Scene) -> list[Recorded]:
    """Arrivals from 0 to the end of the window."""
    first, last = works[0].at_ms, works[-1].at_ms
    factor = scene.seconds * 1_000 / max(last - first, 1)
    return [_changed(one, at_ms=round((one.at_ms - first) * factor)) for one in works]


def _cut(gang: Recorded, scene: Scene) -> Recorded:
    return _changed(gang, pods=max(1, gang.pods * scene.nodes // (4 * KALOS_NODES)))


def _loaded(works: Sequence[Recorded], scene: Scene) -> list[Recorded]:
    """Run times scaled alike, in whole seconds, until they come to the load that is wanted."""
    wanted = scene.load * scene.gpus * scene.seconds
    low, high = 0.0, 1.0
    for _ in range(40):
        factor = (low + high) / 2
        scaled = [_changed(one, run_ms=_run_ms(one, factor)) for one in works]
        if offered_gpu_seconds(scaled) < wanted:
            low = factor
        else:
            high = factor
    return [_changed(one, run_ms=_run_ms(one, high)) for one in works]


def _run_ms(one: Recorded, factor: float) -> int:
    return 1_000 * min(max(round(one.run_ms * factor / 1_000), 1), RUN_SECONDS_MAX)


def _changed(one: Recorded, **values: int) -> Recorded:
    fields: Mapping[str, Any] = {name: getattr(one, name) for name in Recorded.__slots__}
    return Recorded(**{**fields, **values})


def _spec(one: Recorded, random_: random.Random) -> WorkloadSpec:
    (name,) = random_.choices(list(CLASSES), list(CLASSES.values()))
    spec = spec_of(one, 1.0, {})
    return replace(
        spec,
        priority_class=name,
        pod_sets=(_elastic(spec.pod_sets[0], random_),),
        checkpoint_interval_seconds=2 if random_.random() < 0.6 else None,  # the rest: no spot
        grace_seconds=random_.randint(0, 2),
        max_retries=0,
    )


def _elastic(pods: PodSet, random_: random.Random) -> PodSet:
    """Most gangs run with half of their pods, too."""
    if pods.count == 1 or random_.random() < 0.2:
        return pods
    return replace(pods, min_count=max(1, pods.count // 2))


def item_of(one: Recorded, specs: Mapping[str, WorkloadSpec]) -> dict[str, Any]:
    """What a batch carries of one: its name is its idempotency key."""
    return {"idempotency_key": one.name, "spec": msgspec.to_builtins(specs[one.name])}
