"""Who may be evicted for whom: the rules alone, one victim at a time (mission R1, R5).

Inside a queue only a strictly lower priority. Across queues, let a and b be the children of the
lowest common ancestor above the preemptor's and the victim's queue (for a flat cohort, the queues
themselves):
- reclaim: a stays within its nominal quota with the preemptor; b and every node from it down to
  the victim's queue is above its own, and is not pushed below it;
- fair share: the weighted share of a with the preemptor, and its debt, is strictly less than that
  of b as it is, no more than that of b without the victim, and b is not pushed below its nominal
  quota either. So the sorted shares only ever fall, and rounds of evictions end; and as debts
  move, what was taken from b goes back to it only after b was as much short of its part as it
  was beyond it (docs/adr/0023, 0035).
Free devices may be used besides, but nobody is evicted so that a queue or cohort which holds both
borrows more than before: what it won so, others would take back, for ever.
A gang that runs partly on borrowed quota could not run without it. When nobody else can give it
back, reclaim may take such a gang although its queue is then below nominal (`straddling`).
Source: Kueue's preemption (`withinClusterQueue`, `reclaimWithinCohort`, fair sharing); KAI's
reclaim strategies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from shared.core.amounts import Amount
from shared.core.model import Workload
from shared.core.preemption.occupant import Occupant
from shared.core.preemption.plan import Obstacle, Rule
from shared.core.quota.fair_share import share
from shared.core.quota.queue_policy import DEFAULT_POLICY, QueuePolicy, Reclaim, WithinQueue
from shared.core.quota.tree import NOTHING, QuotaNode, QuotaTree
from shared.core.units import GPU_MILLI

WHOLE_MS: Final = 60_000
"""The services' `Rules.whole_ms`: small work that breaks up a node costs the gangs that need whole
ones, for it stays broken once some of it is within nominal quota (docs/adr/0029)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What is in force beside the policies of the queues, which are in the tree."""

    cooldown_until_ms: Mapping[str, int] = field(default_factory=dict)
    """By workload that was evicted lately."""
    loss_left_gpu_ms: Mapping[str, int] = field(default_factory=dict)
    """By team: what it may still lose this hour; a team not named may lose anything."""
    promised: Collection[str] = ()
    """Workloads that other plans have as victims."""
    eviction_gpu_ms: int = 36_000_000
    """What policy adds to the cost of each eviction (ten GPU-hours), however small ..."""
    priority_ms: int = 60
    """... and for each point of its priority, of all of its GPUs."""
    whole_ms: int = 0
    """... and for each GPU of its node that could be freed beside what a pod asks for."""


@dataclass(frozen=True, slots=True)
class Spared:
    """Why one stays; `until_ms` if for a time only."""

    obstacle: Obstacle
    until_ms: int = 0


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms a queue may lose workloads to the preemptor."""

    rule: Rule | None
    obstacle: Obstacle = Obstacle.NOBODY
    """Why it may not, when there is no rule."""
    below_priority: bool = False
    """Whether only those of a lower priority."""
    nodes: tuple[QuotaNode, ...] = ()
    """Whose nominal quota must stay used."""


class Judge:
    """The rules for one preemptor in one flavor, with those taken so far gone from the tree."""

    def __init__(
        self,
        tree: QuotaTree,
        rules: Rules,
        preemptor: Workload,
        charge: Amount,
        *,
        flavor: str,
        now_ms: int,
        straddling: bool = False,
    ) -> None:
        self.tree = tree
        self.rules = rules
        self.preemptor = preemptor
        self.charge = charge
        self.flavor = flavor
        self.now_ms = now_ms
        self._straddling = straddling
        self.queue = tree.node(preemptor.queue)
        self._path = list(self.queue.path())
        self._borrowed_before = {each.name: each.borrowed(flavor) for each in self._path}
        self._gone_below: Counter[str] = Counter()
        """How many of those taken were below each node of the preemptor's path."""
        self._lost: dict[str, int] = {}
        self._shares: dict[str, int] = {}
        """With the preemptor, as things are now."""

    def terms(self, queue: str) -> Terms:
        """On what terms workloads of `queue` may go, as things are. O(depth)."""
        policy = policy_of(self.queue)
        if queue == self.preemptor.queue:
            if policy.within_queue is WithinQueue.NEVER:
                return Terms(None, Obstacle.POLICY)
            return Terms(Rule.PRIORITY, below_priority=True)
        mine, theirs = self._branches(queue)
        if not all(any(self.above(node)) for node in theirs):
            return Terms(None, Obstacle.NOMINAL)
        if self._within_nominal(mine) and policy.reclaim is not Reclaim.NEVER:
            lower = policy.reclaim is Reclaim.LOWER_PRIORITY
            return Terms(Rule.RECLAIM, below_priority=lower, nodes=tuple(theirs))
        return self._by_share(policy, mine, theirs)

    def _by_share(self, policy: QueuePolicy, mine: QuotaNode, theirs: list[QuotaNode]) -> Terms:
        if not policy.fair_share or mine.parent is None:
            return Terms(None, Obstacle.POLICY)
        if self._share_then(mine) < share(theirs[-1]):
            return Terms(Rule.FAIR_SHARE, nodes=tuple(theirs))
        return Terms(None, Obstacle.SHARE)

    def rule(self, occupant: Occupant, charge: Amount) -> Rule | Spared:
        """By which rule it may lose `charge`, beside those taken; or why not."""
        left = self.rules.loss_left_gpu_ms.get(occupant.team)
        if left is not None and self._lost.get(occupant.team, 0) + self._loss(
            occupant, charge
        ) > max(left, 0):
            return Spared(Obstacle.LOSS_BUDGET)
        terms = self.terms(occupant.queue)
        if terms.rule is None:
            return Spared(terms.obstacle)
        if terms.below_priority and occupant.priority >= self.preemptor.priority:
            return Spared(Obstacle.PRIORITY)
        straddles = self.may_straddle(terms.rule)
        if not straddles and not all(self._stays(node, charge) for node in terms.nodes):
            return Spared(Obstacle.NOMINAL)
        if terms.rule is Rule.FAIR_SHARE and not self._keeps_order(occupant.queue, charge):
            return Spared(Obstacle.SHARE)
        return terms.rule

    def may_straddle(self, rule: Rule) -> bool:
        """Whether `rule` may now push a queue below its nominal quota."""
        return self._straddling and rule is Rule.RECLAIM

    def _keeps_order(self, queue: str, charge: Amount) -> bool:
        """Whether `queue` without `charge` has no less, by share, than the preemptor with his."""
        mine, theirs = self._branches(queue)
        self.tree.charge(queue, self.flavor, charge, -1)
        kept = self._share_of(mine) <= share(theirs[-1])
        self.tree.charge(queue, self.flavor, charge)
        return kept

    def take(self, occupant: Occupant, charge: Amount) -> None:
        """Let it go: from now on others are judged as if it were gone."""
        loss = self._loss(occupant, charge)
        self._lost[occupant.team] = self._lost.get(occupant.team, 0) + loss
        self.tree.charge(occupant.queue, self.flavor, charge, -1)
        self._gone_below.update(self._common(occupant.queue))
        self._shares.clear()

    def give_back(self, occupant: Occupant, charge: Amount) -> None:
        """Undo `take`."""
        self._lost[occupant.team] -= self._loss(occupant, charge)
        self.tree.charge(occupant.queue, self.flavor, charge)
        self._gone_below.subtract(self._common(occupant.queue))
        self._shares.clear()

    def short(self, charge: Amount) -> tuple[QuotaNode, Amount] | None:
        """The first node that may not have `charge` beside its use, and what it lacks.

        For want of quota; or because somebody else below it goes, and it would borrow more than
        before: nobody is evicted so that those who share a queue or cohort borrow more.
        """
        blocked = self.tree.blocked_by(self.queue, self.flavor, charge)
        if blocked is not None:
            return blocked, _lacking(charge, blocked.available(self.flavor))
        if not self._gone_below:
            return None
        self.tree.charge(self.queue.name, self.flavor, charge)
        found = next(filter(None, map(self._grown, self._path)), None)
        self.tree.charge(self.queue.name, self.flavor, charge, -1)
        return found

    def _grown(self, node: QuotaNode) -> tuple[QuotaNode, Amount] | None:
        """By how much `node` borrows more than before, if some of those below it have gone."""
        if not self._gone_below.get(node.name):
            return None
        more = _lacking(node.borrowed(self.flavor), self._borrowed_before[node.name])
        return (node, more) if any(more) else None

    def above(self, node: QuotaNode) -> Amount:
        """By how much `node` is above its nominal quota, in the units that are asked for."""
        borrowed = node.borrowed(self.flavor)
        return (
            borrowed[0] if self.charge[0] else 0,
            borrowed[1] if self.charge[1] else 0,
            borrowed[2] if self.charge[2] else 0,
        )

    def _branches(self, queue: str) -> tuple[QuotaNode, list[QuotaNode]]:
        """My child of the common ancestor, and the nodes from `queue` up to his."""
        theirs: list[QuotaNode] = []
        for node in self.tree.node(queue).path():
            if node in self._path:
                at = self._path.index(node)
                return self._path[max(at - 1, 0)], theirs
            theirs.append(node)
        return self._path[-1], theirs

    def _common(self, queue: str) -> list[str]:
        """Nodes of the preemptor's path that are above `queue` too, or are it."""
        names = {node.name for node in self._path}
        return [node.name for node in self.tree.node(queue).path() if node.name in names]

    def _within_nominal(self, node: QuotaNode) -> bool:
        """Whether `node` owns enough for the preemptor beside what it uses."""
        used = node.used.get(self.flavor, NOTHING)
        return all(
            not asked or held + asked <= own
            for asked, held, own in zip(self.charge, used, node.owned(self.flavor), strict=True)
        )

    def _share_then(self, node: QuotaNode) -> int:
        """The weighted share of `node` with the preemptor."""
        known = self._shares.get(node.name)
        if known is None:
            known = self._shares[node.name] = self._share_of(node)
        return known

    def _share_of(self, node: QuotaNode) -> int:
        """The same, looked at anew."""
        self.tree.charge(self.queue.name, self.flavor, self.charge)
        found = share(node)
        self.tree.charge(self.queue.name, self.flavor, self.charge, -1)
        return found

    def _stays(self, node: QuotaNode, charge: Amount) -> bool:
        """In one of the units that are asked for, it is above and does not fall below."""
        above = self.above(node)
        return any(over and 0 < gone <= over for over, gone in zip(above, charge, strict=True))

    def _loss(self, occupant: Occupant, charge: Amount) -> int:
        return occupant.lost_gpu_ms(self.now_ms, charge[0])


def policy_of(queue: QuotaNode) -> QueuePolicy:
    """The policy of a queue; the usual one before its document is known."""
    return queue.document.policy if queue.document is not None else DEFAULT_POLICY


def _lacking(wanted: Amount, have: Amount) -> Amount:
    """By unit, what is wanted beyond what there is."""
    return (
        max(wanted[0] - have[0], 0) if wanted[0] else 0,
        max(wanted[1] - have[1], 0) if wanted[1] else 0,
        max(wanted[2] - have[2], 0) if wanted[2] else 0,
    )


def cost_gpu_ms(rate: int, weight_milli: int) -> int:
    """What stopping so much costs at `rate`."""
    return rate * weight_milli // GPU_MILLI
