"""What runs in a fairness world: nodes, the ledger of quota, use over time, and who lies where."""

from __future__ import annotations

from shared.core.backfill.timeline import Timeline
from shared.core.model.amounts import amount
from shared.core.model.nouns import Placement
from shared.core.model.units import GPU_MILLI
from shared.core.preemption.victims.choose import Occupant, Occupants
from shared.core.quota.tree import QuotaTree
from shared.core.quota.usage_history import UsageHistory
from shared.core.scoring.cluster import Cluster
from tests.benchmarks.fairness_documents import documents, node_of
from tests.benchmarks.fairness_live import Live
from tests.benchmarks.fairness_world import FLAVOR, World


class Fleet:
    """As placement keeps it; the ledger has its own quota tree."""

    def __init__(self, world: World, seed: int) -> None:
        self.cluster, self.ledger = Cluster(seed=seed), QuotaTree()
        for number in range(world.nodes):
            self.cluster.put_node(node_of(f"n{number:04}"))
        for document in documents(world):
            self.ledger.apply(document)
        self.history, self.timeline = UsageHistory(), Timeline()
        self.occupants = Occupants()
        self.running: dict[str, int] = {team.name: 0 for team in world.teams}
        """GPUs by team."""

    def charge(self, live: Live, placement: Placement) -> None:
        """Its devices are its own from now on."""
        self.cluster.charge(live.job.team, placement.pods, live.workload.spec.pod_sets)

    def hold(self, live: Live, placement: Placement, starts_ms: int) -> None:
        """It holds `placement`, and runs there from `starts_ms` on."""
        team = live.job.team
        live.placement, live.started_ms = placement, starts_ms
        live.run += 1
        self.ledger.charge(team, FLAVOR, amount(placement.charge))
        self.history.change(team, starts_ms, live.job.gpus * GPU_MILLI)
        self.running[team] += live.job.gpus
        nodes = {pod.node for pod in placement.pods}
        self.timeline.begin(live.workload.id, nodes, (starts_ms, live.left_ms))
        self.occupants.put(
            Occupant(
                workload=live.workload,
                placement=placement,
                priority=0,
                attempt=live.run,
                version=live.run,
                started_at_ms=starts_ms,
            )
        )

    def release(self, live: Live, stops_ms: int) -> None:
        """It holds nothing any more; its use counts until `stops_ms`."""
        assert live.placement is not None
        team = live.job.team
        self.cluster.release(team, live.placement.pods, live.workload.spec.pod_sets)
        self.ledger.charge(team, FLAVOR, amount(live.placement.charge), -1)
        self.history.change(team, max(stops_ms, live.started_ms), -live.job.gpus * GPU_MILLI)
        self.running[team] -= live.job.gpus
        self.occupants.remove(live.workload.id)
        self.timeline.finish(live.workload.id, {pod.node for pod in live.placement.pods})
        live.placement = None
        live.run += 1
