"""The histories that are digested: each is played from a seed alone."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from shared.core.model.nouns import GpuChoice, GpuRequest, PodSet, WorkloadSpec
from shared.events.envelope import workload_id
from shared.events.workloads import CancelWorkload, HoldWorkload, ReleaseWorkload
from tests.support.placement_driver import Driver, command
from tests.support.placement_story import Story as PlacementStory
from tests.support.three_services_story import REQUESTS, STAYING, Story, play
from tests.unit.admission.builders import QUEUE, TEAM, a_spec
from tests.unit.admission.support import Office, a_queue_document, a_team_document

PLACEMENT_BATCHES: Final = 40
SUBMISSIONS: Final = 40


def one_flavor(seed: int) -> None:
    """Quota, placement and preemption until all work has ended."""
    play(Story(Random(seed)))


def two_flavors(seed: int) -> None:
    """The same with a second flavor, and work that may not be evicted."""
    play(Story(Random(seed), others=3, requests=(*REQUESTS, *STAYING)))


def placement_alone(seed: int) -> None:
    """Placement, told anything: plans, stale versions, nodes that come and go."""
    random = Random(seed)
    story, driver = PlacementStory(random, calm=seed % 2 == 1), Driver(seed=seed)
    for _ in range(PLACEMENT_BATCHES):
        driver.send(*story.batch(driver))
        driver.wait(story.seconds())


def admission(seed: int) -> None:
    """Submissions good and bad by both doors, repeated ids, commands, documents that change."""
    random = Random(seed)
    office = Office(nodes=random.choice((0, 3)))
    for _ in range(SUBMISSIONS):
        _admission_step(random, office)
        office.pass_ms(random.choice((0, 10, 60_000, 3_600_000)))


def _admission_step(random: Random, office: Office) -> None:
    key = f"k{random.randrange(20)}"
    match random.randrange(7):
        case 0 | 1:
            office.http(_a_spec(random), key)
        case 2 | 3:
            office.kafka(_a_spec(random), key)
        case 4:
            kind = random.choice((CancelWorkload, HoldWorkload, ReleaseWorkload))
            office.command(command(kind, workload_id(TEAM, key)))
        case 5:
            office.apply(a_queue_document(version=office.offset, gpus=random.choice((8, 64))))
        case _:
            office.apply(a_team_document(version=office.offset))


def _a_spec(random: Random) -> WorkloadSpec:
    gpu: dict[str, Any] = random.choice(
        (
            {"count": random.choice((0, 1, 8, 9, -1))},
            {"milli": random.choice((100, 500, 1001)), "memory_mib": random.choice((0, 10_000))},
            {"mig_profile": random.choice(("1g.10gb", "3g.40gb", "9g.1gb")), "mig_count": 1},
        )
    )
    pod_set = PodSet(
        name=random.choice(("worker", "Worker!")),
        count=random.choice((1, 4, 5000)),
        gpu=GpuRequest(**gpu),
        cpu_milli=random.choice((None, 1000)),
    )
    choice = GpuChoice(products=random.choice(((), ("H100",), ("nothing",))))
    spec: WorkloadSpec = a_spec(
        name=f"w{random.randrange(9)}",
        pod_sets=(pod_set,),
        gpu_choice=choice,
        queue=random.choice(("", QUEUE, "nobodys")),
    )
    return spec


HISTORIES: Final[dict[str, Callable[[int], None]]] = {
    "admission": admission,
    "one_flavor": one_flavor,
    "placement_alone": placement_alone,
    "two_flavors": two_flavors,
}
