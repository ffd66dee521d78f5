"""Which workloads may be evicted for another: by the rules, one victim at a time (ADR 23).

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
Free devices may be used besides, but not so that anything borrows more than before (standing.py).
A gang that runs partly on borrowed quota could not run without it. When no other can give it
back, reclaim may take such a gang although its queue is then below nominal (`straddling`).
Source: Kueue's preemption (`withinClusterQueue`, `reclaimWithinCohort`, fair sharing); KAI's
reclaim strategies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from shared.core.model.amounts import Amount
from shared.core.model.nouns import Workload
from shared.core.preemption.eligibility.occupant import Occupant
from shared.core.preemption.eligibility.plan import Obstacle, Rule
from shared.core.preemption.eligibility.standing import PreemptorStanding
from shared.core.quota.fair_share import share
from shared.core.quota.queue_policy import DEFAULT_POLICY, QueuePolicy, Reclaim, WithinQueue
from shared.core.quota.tree import QuotaNode, QuotaTree

WHOLE_MS: Final = 60_000
"""The services' `PreemptionRules.whole_ms`: small work that breaks up a node costs the gangs that
need whole ones, for it stays broken once some of it is within nominal quota (docs/adr/0029)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionRules:
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
    """Queues of which the nominal quota must stay used."""


class EligibilityJudge:
    """The rules for one preemptor in one flavor, with those taken so far gone from the tree."""

    def __init__(
        self,
        tree: QuotaTree,
        rules: PreemptionRules,
        preemptor: Workload,
        charge: Amount,
        *,
        flavor: str,
        now_ms: int,
        straddling: bool = False,
        owned_only: bool = False,
    ) -> None:
        self.rules = rules
        self.preemptor = preemptor
        self.charge = charge
        self.flavor = flavor
        self.now_ms = now_ms
        self._straddling = straddling
        self.standing = PreemptorStanding(
            tree, preemptor.queue, charge, flavor, owned_only=owned_only
        )
        self._lost: dict[str, int] = {}
        """By team: the work that those taken lose."""

    def terms(self, queue: str) -> Terms:
        """On what terms workloads of `queue` may go, as things are. O(depth)."""
        policy = policy_of(self.standing.queue)
        if queue == self.preemptor.queue:
            if policy.within_queue is WithinQueue.NEVER:
                return Terms(None, Obstacle.POLICY)
            return Terms(Rule.PRIORITY, below_priority=True)
        standing = self.standing
        mine, theirs = standing.branches(queue)
        within = next((node for node in theirs if not any(standing.above(node))), None)
        if within is not None:
            of_queue = within.is_queue
            return Terms(None, Obstacle.NOMINAL if of_queue else Obstacle.COHORT_NOMINAL)
        if standing.within_nominal(mine) and policy.reclaim is not Reclaim.NEVER:
            lower = policy.reclaim is Reclaim.LOWER_PRIORITY
            return Terms(Rule.RECLAIM, below_priority=lower, nodes=tuple(theirs))
        return self._by_share(policy, mine, theirs)

    def _by_share(self, policy: QueuePolicy, mine: QuotaNode, theirs: list[QuotaNode]) -> Terms:
        if not policy.fair_share or mine.parent is None:
            return Terms(None, Obstacle.POLICY)
        if self.standing.share_then(mine) < share(theirs[-1]):
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
            return Spared(Obstacle.BELOW_NOMINAL)
        if terms.rule is Rule.FAIR_SHARE and not self.standing.keeps_order(occupant.queue, charge):
            return Spared(Obstacle.SHARE)
        return terms.rule

    def may_straddle(self, rule: Rule) -> bool:
        """Whether `rule` may now push a queue below its nominal quota."""
        return self._straddling and rule is Rule.RECLAIM

    def take(self, occupant: Occupant, charge: Amount) -> None:
        """Let it go: from now on others are judged as if it were gone."""
        loss = self._loss(occupant, charge)
        self._lost[occupant.team] = self._lost.get(occupant.team, 0) + loss
        self.standing.take(occupant.queue, charge)

    def give_back(self, occupant: Occupant, charge: Amount) -> None:
        """Undo `take`."""
        self._lost[occupant.team] -= self._loss(occupant, charge)
        self.standing.give_back(occupant.queue, charge)

    def short(self, charge: Amount) -> tuple[QuotaNode, Amount] | None:
        """The first node of the tree that may not have `charge` beside its use, and its lack."""
        return self.standing.short(charge)

    def _stays(self, node: QuotaNode, charge: Amount) -> bool:
        """In one of the units that are asked for, it is above and does not fall below."""
        above = self.standing.above(node)
        return any(over and 0 < gone <= over for over, gone in zip(above, charge, strict=True))

    def _loss(self, occupant: Occupant, charge: Amount) -> int:
        return occupant.lost_gpu_ms(self.now_ms, charge[0])


def policy_of(queue: QuotaNode) -> QueuePolicy:
    """The policy of a queue; the usual one before its document is known."""
    return queue.document.policy if queue.document is not None else DEFAULT_POLICY
