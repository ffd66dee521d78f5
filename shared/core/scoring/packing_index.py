"""One pod at its best place in a flavor, by what the learned mix of demand leaves useful.

Of all conditions that nodes (or shared GPUs of the team) are in, the policies of
core/scoring/policies, which are listed there in order, tell the best. Until the mix is known
(`learned`, core/scoring/mix.py) the tightest fit of core/placement/search.py decides instead.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from itertools import islice

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.cluster.images import LOOKED_MAX, ImageIndex, missing
from shared.core.cluster.node_class import StatesOf
from shared.core.cluster.node_state import Domain, NodeState
from shared.core.model.demand import PodDemand
from shared.core.scoring.cells import Cells, Ints, Member
from shared.core.scoring.devices import takes_share
from shared.core.scoring.equivalence_classes import EquivalenceClasses
from shared.core.scoring.learned_scores import LearnedScores
from shared.core.scoring.mig_pool import MigPools
from shared.core.scoring.mix import DemandMix

Best = tuple[int, Member]
"""(score, member of a cell)"""


class PackingIndex:
    """All of one flavor: the mix asked of it, and its nodes and shared GPUs in cells."""

    def __init__(self) -> None:
        self.mix = DemandMix()
        self.pools = MigPools(self.mix.profiles)
        """Its GPUs in MIG mode."""
        self.images = ImageIndex()
        self.index = EquivalenceClasses()
        self.scores = LearnedScores(self.index)

    @property
    def states_of(self) -> StatesOf:
        """Its GPUs in MIG mode, by product."""
        return self.pools.pool

    @property
    def learned(self) -> bool:
        """Whether there is a mix to go by."""
        return self.mix.version > 0

    def change(self, node: NodeState) -> None:
        """A node changed; its cells follow when they are next needed."""
        self.index.change(node)

    def reorder(self, domains: Mapping[Domain, None]) -> None:
        """The nodes of `domains` come in another order now; their cells follow as above."""
        self.index.reorder(domains)

    def leave(self, node: NodeState) -> None:
        """Take a node out of its cells: it is gone, or of another flavor."""
        self.index.leave(node)

    def follow(self) -> None:
        """Bring the cells in step with the nodes that changed. O(GPUs) for each."""
        if self.learned:
            self.index.follow()

    def find(
        self,
        node_classes: tuple[CapacityIndex, ...],
        demand: PodDemand,
        team: str,
        exclude: Container[NodeState],
    ) -> tuple[NodeState, int] | None:
        """(node, its shared GPU or -1) for one pod without MIG; None if nothing fits."""
        self.follow()
        if not self.index.node_classes:
            return None
        self.scores.follow(self.mix)
        best = self._best_node(node_classes, demand, team, exclude)
        if demand.milli:
            on_gpu = self._best_gpu(node_classes, demand, team, exclude)
            if on_gpu is not None and (best is None or on_gpu[0] >= best[0]):
                best = on_gpu
        return None if best is None else (best[1][2], best[1][1])

    def _best_node(
        self,
        node_classes: tuple[CapacityIndex, ...],
        demand: PodDemand,
        team: str,
        exclude: Container[NodeState],
    ) -> Best | None:
        cells = self.index.nodes
        scores = self.scores.of_nodes(node_classes, demand)
        best = cells.best(scores, demand.cpu_milli, demand.memory_mib, exclude)
        if best is None or not self.images.has_any(demand.artifacts):
            return best
        return self._at_hand((cells, scores), best, demand, team, exclude)

    def _best_gpu(
        self,
        node_classes: tuple[CapacityIndex, ...],
        demand: PodDemand,
        team: str,
        exclude: Container[NodeState],
    ) -> Best | None:
        """Among the GPUs that the team shares already."""
        cells = self.index.shared.get(team)
        if cells is None:
            return None

        def accepts(node: NodeState, gpu: int) -> bool:
            return takes_share(node.uses[gpu], demand, team)

        scores = self.scores.of_gpus(node_classes, demand)
        best = cells.best(scores, demand.cpu_milli, demand.memory_mib, exclude, accepts)
        if best is None or not self.images.has_any(demand.artifacts):
            return best
        return self._at_hand((cells, scores), best, demand, team, exclude)

    def _at_hand(
        self,
        where: tuple[Cells, Ints],
        best: Best,
        demand: PodDemand,
        team: str,
        exclude: Container[NodeState],
    ) -> Best:
        """The member as good as the best, on the node that has most of the artifacts at hand."""
        (cells, scores), (score, first) = where, best

        def suits(member: Member) -> bool:
            _, gpu, node = member
            return (
                node.whole == first[2].whole
                and node.free_cpu_milli >= demand.cpu_milli
                and node.free_memory_mib >= demand.memory_mib
                and node not in exclude
                and (gpu < 0 or takes_share(node.uses[gpu], demand, team))
            )

        looked = list(islice(cells.of_score(scores, score), LOOKED_MAX))
        for one in demand.artifacts:
            looked += self._holders(cells, scores, score, one)
        return score, min(
            (first, *filter(suits, looked)),
            key=lambda member: (missing(member[2], demand.artifacts), member),
        )

    def _holders(self, cells: Cells, scores: Ints, score: int, artifact: str) -> Iterator[Member]:
        """Members of `cells` with that score, of nodes that have it."""
        for node in self.images.holders(artifact):
            for at, number, member in self.index.places.get(node, {}).values():
                if at is cells and scores[number] == score:
                    yield member
