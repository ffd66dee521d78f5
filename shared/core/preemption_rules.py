"""Who may be evicted for whom: the rules alone, one victim at a time (mission R1, R5).

Inside a queue only a strictly lower priority. Across queues, let a and b be the children of the
lowest common ancestor above the preemptor's and the victim's queue (for a flat cohort, the queues
themselves):
- reclaim: a stays within its nominal quota with the preemptor, b and every node from it down to
  the victim's queue is above its own, and not pushed below it;
- fair share: the weighted share of a with the preemptor is strictly less than that of b as it is,
  and b is not pushed below its nominal quota either. So the sorted shares only ever fall, and
  rounds of evictions end (docs/adr/0023).
Source: Kueue's preemption (`withinClusterQueue`, `reclaimWithinCohort`, fair sharing); KAI's
reclaim strategies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from shared.core.amounts import Amount, amount
from shared.core.attempt import least_charge
from shared.core.demand import gang_of
from shared.core.model import Workload
from shared.core.occupants import Occupant
from shared.core.preemption_plan import Obstacle, Rule
from shared.core.queue_policy import DEFAULT_POLICY, QueuePolicy, Reclaim, WithinQueue
from shared.core.quota import NOTHING, QuotaNode, QuotaTree
from shared.core.units import GPU_MILLI, UNLIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is in force beside the policies of the queues, which are in the tree."""

    cooldown_until_ms: Mapping[str, int] = field(default_factory=dict)
    """By workload that was evicted lately."""
    loss_left_gpu_ms: Mapping[str, int] = field(default_factory=dict)
    """By team: what it may still lose this hour; a team not named may lose anything."""
    promised: Collection[str] = ()
    """Workloads that other plans have as victims."""
    eviction_ms: int = 120_000
    """What policy adds to the cost of each eviction: so much of all of its GPUs ..."""
    priority_ms: int = 60
    """... and so much for each point of its priority."""


@dataclass(frozen=True, slots=True)
class Spared:
    """Why one stays; `until_ms` if for a time only."""

    obstacle: Obstacle
    until_ms: int = 0


class Judge:
    """The rules for one preemptor in one flavor, with those taken so far gone from the tree."""

    def __init__(
        self,
        tree: QuotaTree,
        rules: Rules,
        preemptor: Workload,
        *,
        flavor: str,
        now_ms: int,
    ) -> None:
        self._tree = tree
        self._rules = rules
        self._preemptor = preemptor
        self.flavor = flavor
        self.now_ms = now_ms
        self._charge = amount(least_charge(gang_of(preemptor)))
        self._queue = tree.node(preemptor.queue)
        self._path = list(self._queue.path())
        self._lost: dict[str, int] = {}
        self.taken: dict[str, Rule] = {}

    def cost_gpu_ms(self, occupant: Occupant, gpu_milli: int | None = None) -> int:
        """What evicting it costs: lost work and policy."""
        held = occupant.placement.charge.gpu_milli if gpu_milli is None else gpu_milli
        policy_ms = self._rules.eviction_ms + self._rules.priority_ms * max(occupant.priority, 0)
        return occupant.lost_gpu_ms(self.now_ms, held) + held * policy_ms // GPU_MILLI

    def spared(self, occupant: Occupant) -> Spared | None:
        """Why it may not go by itself, whatever its queue; None if it may."""
        if occupant.protected:
            return Spared(Obstacle.PROTECTED)
        if not occupant.evictable or occupant.id == self._preemptor.id:
            return Spared(Obstacle.NOT_EVICTABLE)
        if occupant.id in self._rules.promised:
            return Spared(Obstacle.PROMISED)
        min_runtime_ms = policy_of(self._tree.node(occupant.queue)).min_runtime_seconds * 1000
        if self.now_ms < occupant.started_at_ms + min_runtime_ms:
            return Spared(Obstacle.MIN_RUNTIME, occupant.started_at_ms + min_runtime_ms)
        until_ms = self._rules.cooldown_until_ms.get(occupant.id, 0)
        if self.now_ms < until_ms:
            return Spared(Obstacle.COOLDOWN, until_ms)
        return None

    def rule(self, occupant: Occupant, charge: Amount) -> Rule | Spared:
        """By which rule it may go, beside those taken; or why not."""
        left = self._rules.loss_left_gpu_ms.get(occupant.team)
        if left is not None:
            lost = occupant.lost_gpu_ms(self.now_ms, charge[0])
            if self._lost.get(occupant.team, 0) + lost > left:
                return Spared(Obstacle.LOSS_BUDGET)
        if occupant.queue == self._preemptor.queue:
            return self._inside(occupant)
        return self._across(occupant, charge)

    def allows(self, charge: Amount) -> bool:
        """Whether quota allows the preemptor `charge`, at every level of the tree."""
        return self._tree.blocked_by(self._queue, self.flavor, charge) is None

    def take(self, occupant: Occupant, charge: Amount, rule: Rule) -> None:
        """Let it go: from now on it is judged as if it were gone."""
        self.taken[occupant.id] = rule
        lost = occupant.lost_gpu_ms(self.now_ms, charge[0])
        self._lost[occupant.team] = self._lost.get(occupant.team, 0) + lost
        self._tree.charge(occupant.queue, self.flavor, charge, -1)

    def give_back(self, occupant: Occupant, charge: Amount) -> None:
        """Undo `take`."""
        del self.taken[occupant.id]
        self._lost[occupant.team] -= occupant.lost_gpu_ms(self.now_ms, charge[0])
        self._tree.charge(occupant.queue, self.flavor, charge)

    def _inside(self, occupant: Occupant) -> Rule | Spared:
        if policy_of(self._queue).within_queue is WithinQueue.NEVER:
            return Spared(Obstacle.POLICY)
        if occupant.priority >= self._preemptor.priority:
            return Spared(Obstacle.PRIORITY)
        return Rule.PRIORITY

    def _across(self, occupant: Occupant, charge: Amount) -> Rule | Spared:
        mine, theirs = self._branches(occupant)
        policy = policy_of(self._queue)
        if not all(self._stays_above_nominal(node, charge) for node in theirs):
            return Spared(Obstacle.NOMINAL)
        if self._within_nominal(mine) and policy.reclaim is not Reclaim.NEVER:
            if policy.reclaim is Reclaim.ANY or occupant.priority < self._preemptor.priority:
                return Rule.RECLAIM
            return Spared(Obstacle.PRIORITY)
        if not policy.fair_share or mine.parent is None:
            return Spared(Obstacle.POLICY)
        share = weighted_share(mine, self.flavor, self._charge)
        larger = share < weighted_share(theirs[-1], self.flavor)
        return Rule.FAIR_SHARE if larger else Spared(Obstacle.SHARE)

    def _within_nominal(self, node: QuotaNode) -> bool:
        used, nominal = _used(node, self.flavor), nominal_of(node, self.flavor)
        return all(
            not asked or held + asked <= own
            for asked, held, own in zip(self._charge, used, nominal, strict=True)
        )

    def _branches(self, occupant: Occupant) -> tuple[QuotaNode, list[QuotaNode]]:
        """My child of the common ancestor, and the nodes from the victim's queue to his."""
        theirs: list[QuotaNode] = []
        for node in self._tree.node(occupant.queue).path():
            if node in self._path:
                at = self._path.index(node)
                return self._path[max(at - 1, 0)], theirs
            theirs.append(node)
        return self._path[-1], theirs

    def _stays_above_nominal(self, node: QuotaNode, charge: Amount) -> bool:
        """In one of the units that are asked for, it is above and does not fall below."""
        return any(
            asked and gone and used > nominal and used - gone >= nominal
            for asked, gone, used, nominal in zip(
                self._charge,
                charge,
                _used(node, self.flavor),
                nominal_of(node, self.flavor),
                strict=True,
            )
        )


def policy_of(queue: QuotaNode) -> QueuePolicy:
    """The policy of a queue; the usual one before its document is known."""
    return queue.document.policy if queue.document is not None else DEFAULT_POLICY


def nominal_of(node: QuotaNode, flavor: str) -> Amount:
    """What it and all below it own in `flavor`."""
    return node.owned(flavor)


def weighted_share(node: QuotaNode, flavor: str, more: Amount = NOTHING) -> Fraction:
    """Its dominant share of its cohort's quota above nominal, with `more`, by its weight."""
    above = node.parent
    total = nominal_of(above, flavor) if above is not None else NOTHING
    weight = node.document.weight if node.document is not None else 1
    share = Fraction(0)
    for used, asked, nominal, whole in zip(
        _used(node, flavor), more, nominal_of(node, flavor), total, strict=True
    ):
        borrowed = used + asked - nominal
        if borrowed > 0 and 0 < whole < UNLIMITED:
            share = max(share, Fraction(borrowed, whole))
    return share / weight if weight else share * UNLIMITED


def charge_of(occupant: Occupant) -> Amount:
    """What all of it is charged."""
    return amount(occupant.placement.charge)


def _used(node: QuotaNode, flavor: str) -> Amount:
    used = node.used.get(flavor, NOTHING)
    return used[0], used[1], used[2]
