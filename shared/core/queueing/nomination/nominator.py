"""Which workloads may be tried next: the order of every queue under its quota (ADR 22).

A nomination is permission to try. While it has no answer it counts as use, in the first flavor
with room; once refused it stays open and uncounted, because placement tries it again by itself,
and the ledger charges.

Here come the facts in. Which queues they could help is in
core/queueing/nomination/changed_queues.py, what is open in core/queueing/nomination/window.py, and
what is concluded when a batch settles in core/queueing/nomination/nomination_cycle.py: the
different requests of each queue that could be helped are looked at once. What follows is collected
in `decisions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shared.core.model.amounts import Amount
from shared.core.model.decision import Refusal
from shared.core.model.ordering import order_key
from shared.core.queueing.nomination.asked import gpu_milli_waiting
from shared.core.queueing.nomination.changed_queues import ChangedQueues
from shared.core.queueing.nomination.decision import Decision, Refuse
from shared.core.queueing.nomination.flavor_choice import FlavorKind
from shared.core.queueing.nomination.next_of_own import could_be_next
from shared.core.queueing.nomination.nomination_cycle import NominationCycle
from shared.core.queueing.nomination.pending import Pending, Phase
from shared.core.queueing.nomination.pending_queue import PendingQueue
from shared.core.queueing.nomination.permission import NO_ROOM, Permissions
from shared.core.queueing.nomination.telling import ReasonTeller
from shared.core.queueing.nomination.turns import Use
from shared.core.queueing.nomination.window import OPEN, NominationWindow, give_anew
from shared.core.quota.budget import Restriction
from shared.core.quota.fair_share import may_borrow
from shared.core.quota.tree import NOTHING, QuotaDocument, QuotaNode, QuotaTree

OPEN_MAX: Final = 20_000
OPEN_EACH: Final = 64
"""Open nominations that a queue may always have, however full the cell is."""


class Nominator:
    """All lines of one cell. Every method is a fact that came in; `settle` draws conclusions."""

    def __init__(
        self,
        tree: QuotaTree | None = None,
        *,
        open_max: int = OPEN_MAX,
        open_each: int = OPEN_EACH,
    ) -> None:
        self.tree = tree if tree is not None else QuotaTree()
        self.used: Use = lambda queue: 0  # noqa: ARG005  # until somebody counts it
        """What a queue used over time."""
        self._permissions = Permissions(self.tree)
        self._agenda = ChangedQueues(self.tree, self._permissions)
        self.window = NominationWindow(
            self.tree, self._permissions, self._agenda, open_max=open_max, open_each=open_each
        )
        self._teller = ReasonTeller(self._permissions, self._refuse)
        self._settling = NominationCycle(
            self._agenda, self.window, self._permissions, self._teller
        )

    @property
    def lines(self) -> dict[str, PendingQueue]:
        """By queue."""
        return self._agenda.lines

    @property
    def decisions(self) -> list[Decision]:
        """What was decided since the last `take`."""
        return self.window.decisions

    @property
    def open(self) -> int:
        """Open nominations of the cell, answered or not."""
        return self.window.count

    @property
    def unsettled(self) -> bool:
        """Whether a turn is left to do."""
        return bool(self._agenda)

    def take(self) -> list[Decision]:
        """The decisions since the last call, in order."""
        taken, self.window.decisions = self.window.decisions, []
        return taken

    def line(self, queue: str) -> PendingQueue:
        """The line of a queue, whether or not it has quota yet."""
        return self._agenda.line(queue)

    @property
    def unannounced(self) -> bool:
        """Whether `settle` was called without `announce` where others may be the next now."""
        return bool(self._settling.unannounced)

    def settle(self, *, announce: bool = True) -> None:
        """Nominate what may go now, and tell the first of the others why not.

        At most `TURN_MAX` nominations and as many withdrawals; `unsettled` says that a turn is
        left. `announce`: say what is next for what its queue owns
        (core/queueing/nomination/next_of_own.py).
        """
        self._settling.settle(self.used, announce=announce)

    # ── rules ────────────────────────────────────────────────────────────────────────────────

    def apply(self, document: QuotaDocument) -> tuple[QuotaNode | None, str]:
        """A queue or cohort in force: its node, or why it is refused.

        All queues of the trees that it was and is in are looked at when the batch settles.
        """
        known = self.tree.nodes.get(document.name)
        before = known.root.name if known is not None else document.name
        line = self.lines.get(document.name)
        strict = line is not None and line.strict
        lent = line is not None and may_borrow(line.node, evictable=False)
        node, problem = self.tree.apply(document)
        if node is not None:
            if line is not None and line.strict != strict:
                give_anew(line)
            elif line is not None and may_borrow(line.node, evictable=False) != lent:
                give_anew(line, lambda choice: not choice.evictable)
            self._permissions.changed()
            self._agenda.tree_changed(before, node.root.name)
        return node, problem

    def apply_flavor(self, name: str, kind: FlavorKind) -> None:
        """What a flavor is made of."""
        if self._permissions.kinds.get(name) == kind:
            return
        self._permissions.kinds[name] = kind
        self._permissions.changed()
        for line in self.lines.values():
            self._agenda.reconsider(line)

    def spot_flavors(self) -> tuple[str, ...]:
        """Those that are known to be spot, by name."""
        kinds = self._permissions.kinds
        return tuple(sorted(name for name, kind in kinds.items() if kind.spot))

    def restrict(self, team: str, restriction: Restriction | None) -> None:
        """What the budget of a team permits from now on; what differs then is given anew."""
        lines = [one for one in self.lines.values() if one.team == team]
        before = [self._permissions.within_nominal(one) for one in lines]
        if not self._permissions.restrict(team, restriction):
            return
        for line, within_nominal in zip(lines, before, strict=True):
            if self._permissions.within_nominal(line) != within_nominal:
                self._give_borrowers_anew(line)
            self._agenda.reconsider(line)

    def _give_borrowers_anew(self, line: PendingQueue) -> None:
        """Its budget changed what it may borrow; nothing for work that may not borrow anyway."""
        give_anew(line, lambda choice: may_borrow(line.node, evictable=choice.evictable))

    def gpu_milli_waiting(self) -> dict[str, dict[str, int]]:
        """By flavor and queue, what is asked for beside what is used (see `asked`)."""
        return gpu_milli_waiting(self.lines.values(), self._permissions)

    def set_debts(self, debts: Mapping[str, int]) -> None:
        """What nodes of the tree had beyond their part (core/quota/deficits.py) changes shares."""
        roots = {self.tree.set_debt(name, debt).root.name for name, debt in debts.items()}
        for line in self.lines.values():
            if line.classes and line.node.root.name in roots:
                self._agenda.look_at(line)

    # ── what waits ───────────────────────────────────────────────────────────────────────────

    def enter(self, pending: Pending) -> None:
        """A workload is queued and may be nominated.

        O(log n) when only its own fit decides; else its line is looked at when the batch settles.
        """
        line = self.line(pending.queue)
        alone = not line.classes
        members = line.enter(pending)
        if self._agenda.is_due(line):
            return
        passes = alone or (not line.strict and members.lineup.first() is pending)
        if self._others_decide(line, alone=alone):
            self._agenda.look_at(line)
            return
        room = self._permissions.room(line, members) if passes else NO_ROOM
        if room.flavor:
            self.window.offer(line, members, pending, room)
            if line.announced:  # it may borrow now
                self._settling.unannounced[line.name] = line
            return
        self._teller.tell_more(line, None, self.open)
        if could_be_next(line, self._permissions, pending):
            self._settling.unannounced[line.name] = line

    def _others_decide(self, line: PendingQueue, *, alone: bool) -> bool:
        """Whether more than its own fit decides about one that enters."""
        return (
            line.held
            or self._settling.contended
            or self._agenda.is_stirred(line)
            or (line.strict and not alone)
        )

    def leave(self, pending: Pending) -> None:
        """It is no longer to be nominated; an open nomination is withdrawn, a charge stays."""
        if pending.phase is Phase.WAITING:
            self._leave_line(pending, tell=True)
        elif pending.phase in OPEN:
            self.window.withdraw(pending)
        if pending.phase is not Phase.PLACED:
            pending.phase = Phase.IDLE

    def _leave_line(self, pending: Pending, *, tell: bool = False) -> None:
        """It waits no more; placement does not know that yet where it is to `tell`."""
        line = self.lines[pending.queue]
        if line.strict:
            self._agenda.look_at(line)
        self._settling.unannounced[line.name] = line
        if tell:
            self.window.unannounce(line, pending)
        line.leave(pending)

    def forget(self, pending: Pending) -> None:
        """It is over: nothing of it stays, and there is nothing to take back."""
        self.released(pending)
        if pending.phase in OPEN:
            self.window.close(pending)
        elif pending.phase is Phase.WAITING:
            self._leave_line(pending)
        pending.phase = Phase.GONE

    def reprioritise(self, pending: Pending, priority: int) -> None:
        """Another priority: out of the order, and in again at its new place."""
        if priority == pending.priority:
            return
        again = pending.phase in {Phase.WAITING, Phase.OFFERED, Phase.REFUSED}
        if again:
            self.leave(pending)
        if pending.phase is Phase.PLACED:
            line = self.lines[pending.queue]
            line.charge(pending, -1)
            pending.priority = priority
            line.charge(pending, 1)
            self._agenda.wake(pending.queue)  # a waiting one may hope for the place of a lower one
        pending.priority = priority
        pending.key = order_key(priority, pending.submitted_at_ms, pending.id)
        if again:
            self.enter(pending)

    # ── what became of it ────────────────────────────────────────────────────────────────────

    def refused(self, pending: Pending, nomination: int) -> None:
        """Placement could not place it now: it stays open, and no longer counts as use."""
        if pending.phase is Phase.OFFERED and pending.nomination == nomination:
            self.window.refused(self.lines[pending.queue], pending)

    def placed(self, pending: Pending, flavor: str, charge: Amount, attempt: int) -> None:
        """The ledger charged it; nothing that quota decided since stands against that."""
        self._release(pending)
        if pending.phase is Phase.WAITING:
            self._leave_line(pending)
        elif pending.phase in OPEN:
            as_counted = pending.flavor == flavor and pending.request == charge
            self.window.close(pending, quota_freed=not as_counted)
        self.tree.charge(pending.queue, flavor, charge)
        pending.phase = Phase.PLACED
        pending.flavor, pending.charge, pending.attempt = flavor, charge, attempt
        self.lines[pending.queue].charge(pending, 1)
        self._agenda.wake(pending.queue)  # a waiting one may hope for the place of this one

    def released(self, pending: Pending) -> None:
        """The ledger holds nothing for it any more; wakes only the queues that this can help."""
        if pending.phase is Phase.PLACED:
            self._release(pending)
            self.window.expect(self.lines[pending.queue])

    def _release(self, pending: Pending) -> None:
        if pending.phase is not Phase.PLACED:
            return
        self.tree.charge(pending.queue, pending.flavor, pending.charge, -1)
        self.lines[pending.queue].charge(pending, -1)
        self._agenda.wake(pending.queue)
        pending.phase = Phase.IDLE
        pending.flavor, pending.charge = "", NOTHING

    # ── after a restart ──────────────────────────────────────────────────────────────────────

    def restore(self, pending: Pending, phase: Phase, flavor: str, charge: Amount) -> None:
        """Put back what was stored, without a decision; `resume` follows the last one."""
        line = self.line(pending.queue)
        if phase is Phase.WAITING:
            line.enter(pending)
            return
        pending.phase, pending.flavor, pending.charge = phase, flavor, charge
        if phase is Phase.PLACED:
            self.tree.charge(pending.queue, flavor, charge)
            line.charge(pending, 1)
        elif phase in OPEN:
            self.window.restore(line, pending)

    def resume(self) -> None:
        """After the last `restore`: look at every line in which someone waits."""
        for line in self.lines.values():
            for pending in line.open.values():
                pending.offered = self._permissions.for_pending(line, pending)
                self._hope_again(line, pending)
            if line.classes:
                self._agenda.look_at(line)
        self._agenda.forget_changed_trees()

    def _hope_again(self, line: PendingQueue, pending: Pending) -> None:
        """Rows do not say what hopes for room: one that was given no flavor hopes in its first."""
        flavor = pending.offered[0] if pending.offered and not pending.flavor else ""
        if flavor and self.tree.blocked_by(line.node, flavor, pending.request) is not None:
            line.hope(pending, flavor)

    def _refuse(self, pending: Pending, refusal: Refusal) -> None:
        self.decisions.append(Refuse(pending, refusal))
