"""What must hold: the client's ledger, the cluster, and the rules of `operations.check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from operations.check.audit import check_chain
from operations.check.causes import check_causes, check_outcomes
from operations.check.history import check_states
from operations.check.ledger import check_capacity, check_pods_gone
from operations.check.model import Evidence, Findings
from operations.check.order import check_equality, check_order
from operations.check.quota_rows import check_quota_rows
from operations.check.replay import check_devices, check_gangs, check_quota
from shared.adapters.memory_cluster import MemoryCluster
from shared.events.topics import team_results
from tests.simulation.client import OWNED
from tests.simulation.evidence import evidence_of
from tests.simulation.faults import SERVICES

if TYPE_CHECKING:
    from tests.simulation.world import World

TOLD_MAX: Final = 3
"""Violations of one rule that are told."""
AT_REST: Final = ("held", "used", "pending", "attempts")
"""Rows of which none is left when all work has ended."""
CHECKS: Final[Sequence[Callable[[Evidence], Findings]]] = (
    *(check_order, check_equality, check_chain, check_outcomes, check_causes, check_states),
    *(check_devices, check_quota, check_quota_rows, check_gangs, check_pods_gone, check_capacity),
)


def doubled_gpus(cluster: MemoryCluster) -> list[str]:
    """GPUs that two pods hold which have not ended."""
    held = Counter(
        (pod.node, one.index)
        for pod in cluster.pods.all_pods()
        if pod.node and not pod.ended
        for one in pod.shares
    )
    return [f"GPU {place} is held by {count} pods" for place, count in held.items() if count > 1]


def verdict(world: World) -> Iterator[str]:
    """Every rule that is broken, a sentence each."""
    yield from (f"crash: {one}" for one in world.crashes)
    yield from world.doubled[:TOLD_MAX]
    yield from _ledger(world)
    yield from _cluster(world)
    for name in SERVICES:
        stale = world.databases[name].stale
        yield from (f"{name}: written by a past holder: {one}" for one in stale[:TOLD_MAX])
    evidence = evidence_of(world)
    for name in AT_REST:
        yield from (f"{name} at rest: {dict(row)}" for row in evidence.rows[name][:TOLD_MAX])
    yield from _charges(world, evidence)
    for check in CHECKS:
        for found in check(evidence).violations[:TOLD_MAX]:
            yield f"{check.__name__}: {found.subject}: {found.detail}"


def _ledger(world: World) -> Iterator[str]:
    """Each submission is queued once, ends once, and is answered as often as it went by Kafka."""
    client = world.client
    answered: Counter[str] = Counter()
    for team in OWNED:
        answered.update(one.workload_id for one in client.news(team_results(team).name))
    for subject, team in client.submitted.items():
        queued, told = client.queued.get(subject, 0), client.ended.get(subject, [])
        wanted, found = client.answers.get(subject, 0), answered[subject]
        if queued != 1:
            yield f"{subject}: queued {queued} times"
        if len(told) != 1:
            yield f"{subject} of {team}: ended {len(told)} times: {told}"
        if wanted != found:
            yield f"{subject}: answered {found} times, submitted by Kafka {wanted} times"


def _cluster(world: World) -> Iterator[str]:
    for pod in world.cluster.pods.all_pods():
        if not pod.ended and pod.workload_id in world.client.ended:
            yield f"{pod.name}: lives, and its end was told"


def _charges(world: World, evidence: Evidence) -> Iterator[str]:
    """Each attempt is charged once, from its placement until its release."""
    held = world.client.held
    charged = {
        (row["workload_id"], row["attempt"]): [row["started_at_ms"], row["ended_at_ms"]]
        for row in evidence.rows["charged"]
    }
    for attempt in sorted({*held, *charged}):
        told, found = held.get(attempt), charged.get(attempt)
        if told != found:
            yield f"{attempt} was held {told}, charged {found}"
