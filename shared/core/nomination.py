"""Who may be tried next: the order of every queue under its quota (design.md 1, quota).

A nomination is permission to try. While it has no answer it counts as use, in the first flavor
with room; once refused it stays open and uncounted, because placement tries it again by itself,
and the ledger charges. At most `open_max` are open in a cell, beyond a few for each queue; a
waiting workload that comes before an open and refused one of its queue takes its turn.

A queue is looked at again only when something that could help it has changed (`dirty`), once for
each batch, by the different requests that wait in it. What follows is collected in `decisions`.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from shared.core.amounts import Amount
from shared.core.budget import Restriction
from shared.core.decision import Refusal
from shared.core.flavor_choice import FlavorKind
from shared.core.ordering import OrderKey, order_key
from shared.core.pending import Line, Pending, Phase, RequestClass
from shared.core.permission import NO_ROOM, Permissions, Room
from shared.core.quota import NOTHING, QuotaDocument, QuotaNode, QuotaTree
from shared.core.telling import Teller
from shared.core.turns import Turn, Use, take_turns

OPEN_MAX: Final = 20_000
OPEN_EACH: Final = 64
"""Open nominations that a queue may always have, however full the cell is."""
TURN_MAX: Final = 1_000
"""Nominations in one turn; what is left goes on in the next."""


@dataclass(frozen=True, slots=True)
class Nominate:
    """`pending` may be tried in `flavors`, in this order."""

    pending: Pending
    nomination: int
    flavors: tuple[str, ...]
    strict: bool
    within_nominal: bool
    borrowable: tuple[Amount, ...]
    """For each flavor, what the queue may borrow there now."""
    by_eviction: bool
    """It fits in none of them before others have made room."""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Nomination number `nomination` is taken back."""

    pending: Pending
    nomination: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """`pending` waits, for this reason."""

    pending: Pending
    refusal: Refusal


Decision = Nominate | Withdraw | Refuse


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
        self.lines: dict[str, Line] = {}
        self.decisions: list[Decision] = []
        self._permissions = Permissions(self.tree)
        self._teller = Teller(self._permissions, self._refuse)
        self._open_max = open_max
        self._open_each = open_each
        self._open = 0
        self.used: Use = lambda queue: 0  # noqa: ARG005  # until somebody counts it
        """What a queue used over time."""
        self._dirty: dict[str, Line] = {}
        self._stirred: set[str] = set()
        """Roots of trees in which a line is dirty: nobody who comes now goes before those."""
        self._blocked_window: dict[str, Line] = {}
        self._changed_trees: set[str] = set()
        """Roots below which a document has changed."""

    @property
    def open(self) -> int:
        """Open nominations of the cell, answered or not."""
        return self._open

    @property
    def unsettled(self) -> bool:
        """Whether a turn is left to do."""
        return bool(self._dirty or self._changed_trees)

    def take(self) -> list[Decision]:
        """The decisions since the last call, in order."""
        taken, self.decisions = self.decisions, []
        return taken

    def line(self, queue: str) -> Line:
        """The line of a queue, whether or not it has quota yet."""
        found = self.lines.get(queue)
        if found is None:
            found = self.lines[queue] = Line(self.tree.node(queue))
        return found

    # ── what came in ─────────────────────────────────────────────────────────────────────────

    def apply(self, document: QuotaDocument) -> tuple[QuotaNode | None, str]:
        """A queue or cohort in force: its node, or why it is refused.

        All queues of the trees that it was and is in are looked at when the batch settles.
        """
        known = self.tree.nodes.get(document.name)
        before = known.root.name if known is not None else document.name
        line = self.lines.get(document.name)
        strict = line is not None and line.strict
        node, problem = self.tree.apply(document)
        if node is not None:
            if line is not None and line.strict != strict:
                _give_anew(line)
            self._permissions.changed()
            self._changed_trees |= {before, node.root.name}
        return node, problem

    def apply_flavor(self, name: str, kind: FlavorKind) -> None:
        """What a flavor is made of."""
        if self._permissions.kinds.get(name) == kind:
            return
        self._permissions.kinds[name] = kind
        self._permissions.changed()
        for line in self.lines.values():
            self._reconsider(line)

    def restrict(self, team: str, restriction: Restriction | None) -> None:
        """What the budget of a team permits from now on; open nominations are given anew."""
        if not self._permissions.restrict(team, restriction):
            return
        for line in self.lines.values():
            if line.node.document is not None and line.node.document.team == team:
                _give_anew(line)
                self._reconsider(line)

    def enter(self, pending: Pending) -> None:
        """A workload is queued and may be nominated.

        O(log n) when only its own fit decides; else its line is looked at when the batch settles.
        """
        line = self.line(pending.queue)
        alone = not line.classes
        members = line.enter(pending)
        if line.name in self._dirty:
            return
        passes = alone or (not line.strict and members.lineup.first() is pending)
        if line.held or self._contended or self._is_stirred(line) or (line.strict and not alone):
            self._look_at(line)
            return
        room = self._permissions.room(line, members) if passes else NO_ROOM
        if room.flavor:
            self._offer(line, members, pending, room)
        else:
            self._teller.tell_more(line, None, self._open)

    def leave(self, pending: Pending) -> None:
        """It is no longer to be nominated; an open nomination is withdrawn, a charge stays."""
        if pending.phase is Phase.WAITING:
            line = self.lines[pending.queue]
            line.leave(pending)
            if line.strict:
                self._look_at(line)
        elif pending.phase in _OPEN:
            self._withdraw(pending)
        if pending.phase is not Phase.PLACED:
            pending.phase = Phase.IDLE

    def forget(self, pending: Pending) -> None:
        """It is over: nothing of it stays, and there is nothing to take back."""
        self.released(pending)
        if pending.phase in _OPEN:
            self._close(pending)
        else:
            self.leave(pending)
        pending.phase = Phase.GONE

    def reprioritise(self, pending: Pending, priority: int) -> None:
        """Another priority: out of the order, and in again at its new place."""
        if priority == pending.priority:
            return
        again = pending.phase in {Phase.WAITING, Phase.OFFERED, Phase.REFUSED}
        placed = pending.phase is Phase.PLACED
        if again:
            self.leave(pending)
        if placed:
            self.lines[pending.queue].charge(pending, -1)
        pending.priority = priority
        if placed:
            self.lines[pending.queue].charge(pending, 1)
            self._wake(pending.queue)  # who waits may hope for the place of a lower one
        pending.key = order_key(priority, pending.submitted_at_ms, pending.id)
        if again:
            self.enter(pending)

    def refused(self, pending: Pending, nomination: int) -> None:
        """Placement could not place it now: it stays open, and no longer counts as use."""
        if pending.phase is not Phase.OFFERED or pending.nomination != nomination:
            return
        self._uncount(pending)
        self._wake(pending.queue)
        pending.phase = Phase.REFUSED
        self.lines[pending.queue].refused.push(pending)

    def placed(self, pending: Pending, flavor: str, charge: Amount, attempt: int) -> None:
        """The ledger charged it; nothing that quota decided since stands against that."""
        self.released(pending)
        if pending.phase is Phase.WAITING:
            self.leave(pending)
        elif pending.phase in _OPEN:
            as_counted = pending.flavor == flavor and pending.request == charge
            self._close(pending, quota_freed=not as_counted)
        self.tree.charge(pending.queue, flavor, charge)
        pending.phase = Phase.PLACED
        pending.flavor, pending.charge, pending.attempt = flavor, charge, attempt
        self.lines[pending.queue].charge(pending, 1)
        self._wake(pending.queue)  # who waits may hope for the place of this one

    def released(self, pending: Pending) -> None:
        """The ledger holds nothing for it any more; wakes only those whom that can help."""
        if pending.phase is not Phase.PLACED:
            return
        self.tree.charge(pending.queue, pending.flavor, pending.charge, -1)
        self.lines[pending.queue].charge(pending, -1)
        self._wake(pending.queue)
        pending.phase = Phase.IDLE
        pending.flavor, pending.charge = "", NOTHING

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
        elif phase in _OPEN:
            line.open[pending.id] = pending
            self._open += 1
            if phase is Phase.REFUSED:
                line.refused.push(pending)
            elif flavor:
                self.tree.promise(pending.queue, flavor, pending.request)

    def resume(self) -> None:
        """After the last `restore`: look at every line in which someone waits."""
        for line in self.lines.values():
            for pending in line.open.values():
                pending.offered = self._permissions.for_pending(line, pending)
                self._hope_again(line, pending)
            if line.classes:
                self._look_at(line)
        self._changed_trees.clear()

    def _hope_again(self, line: Line, pending: Pending) -> None:
        """Rows do not say who hopes for room: who was given none hopes for it in his first."""
        flavor = pending.offered[0] if pending.offered and not pending.flavor else ""
        if flavor and self.tree.blocked_by(line.node, flavor, pending.request) is not None:
            line.hope(pending, flavor)

    # ── conclusions ──────────────────────────────────────────────────────────────────────────

    def settle(self) -> None:
        """Nominate whoever may go now, and tell the first of the others why not.

        At most `TURN_MAX` nominations and as many withdrawals; `unsettled` says that a turn is
        left.
        """
        self._look_at_changed_trees()
        self._permissions.hope.forget()
        lines, self._dirty, self._stirred = list(self._dirty.values()), {}, set()
        share = max(1, TURN_MAX // max(1, len(lines)))
        for line in lines:
            self._recheck(line, share)
        left = self._go([line for line in lines if not line.suspects and not line.held], share)
        for line in lines:
            self._teller.tell_line(line, self._open)
        for line in (*left, *(one for one in lines if one.suspects)):
            self._look_at(line)

    def _go(self, lines: Sequence[Line], share: int) -> list[Line]:
        """Nominate: a line that nobody disputes its room goes on alone. Who has more to do."""
        if self._contended:
            return take_turns(lines, self._next, self._take, self.used, TURN_MAX)
        rivals = Counter(line.node.root.name for line in lines)
        left = []
        disputed = []
        for line in lines:
            if rivals[line.node.root.name] > 1:
                disputed.append(line)
            elif self._turn(line, share):
                left.append(line)
        return left + take_turns(disputed, self._next, self._take, self.used, TURN_MAX)

    @property
    def _contended(self) -> bool:
        """Whether one turn could fill the window: then queues take it in their order."""
        return self._open + TURN_MAX > self._open_max

    def _look_at_changed_trees(self) -> None:
        if self._changed_trees:
            for line in self.lines.values():
                if line.node.root.name in self._changed_trees:
                    self._reconsider(line)
            self._changed_trees.clear()

    def _recheck(self, line: Line, share: int) -> None:
        """Withdraw nominations that the rules would not give any more, or not like this."""
        for _ in range(min(share, len(line.suspects))):
            pending = line.suspects.pop()
            if pending.phase in _OPEN and (
                line.held or pending.offered != self._permissions.for_pending(line, pending)
            ):
                self._withdraw(pending)
                line.enter(pending)

    def _turn(self, line: Line, share: int) -> bool:
        """Nominate in order; whether the share was used up with more to do."""
        for turn in self._turns(line):
            if share <= 0:
                return True
            share -= 1
            if not self._take(line, turn):
                return False
        return False

    def _turns(self, line: Line) -> Iterator[Turn]:
        """Who may go, in order; whoever asks on has nominated the one before."""
        if line.least is None or not self._permissions.could_fit(line):
            return
        heads = line.heads()
        line.measure()
        while heads:
            members = heads[0][2]
            first, room = members.lineup.first(), self._permissions.room(line, members)
            if room.flavor and first is not None:
                yield Turn(first, members, room)
            elif line.strict:
                return
            follower = members.lineup.first() if room.flavor else None
            if follower is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (follower.key, follower.id, members))

    def _next(self, line: Line) -> Turn | None:
        return next(self._turns(line), None)

    def _take(self, line: Line, turn: Turn) -> bool:
        """Nominate, if the window has room; whether it had."""
        if not self._turn_comes(line, turn.pending):
            return False
        self._offer(line, turn.members, turn.pending, turn.room)
        return True

    def _turn_comes(self, line: Line, pending: Pending) -> bool:
        """Whether the window has room for `pending`, if need be by displacing a later one."""
        if self._window_open(line):
            return True
        self._blocked_window[line.name] = line
        return self._displace(line, pending.key)

    def _window_open(self, line: Line) -> bool:
        return self._open < self._open_max or len(line.open) < self._open_each

    def _displace(self, line: Line, key: OrderKey) -> bool:
        """Make room in the window by the last open and refused one, if that comes after `key`."""
        last = line.refused.first()
        if last is None or last.key <= key:
            return False
        self._withdraw(last, window_freed=False)
        line.enter(last)
        return True

    def _offer(self, line: Line, members: RequestClass, pending: Pending, room: Room) -> None:
        line.leave(pending)
        pending.phase = Phase.OFFERED
        pending.nomination += 1
        pending.offered = members.flavors
        line.open[pending.id] = pending
        self._open += 1
        self.decisions.append(
            Nominate(
                pending,
                pending.nomination,
                members.flavors,
                line.strict,
                self._permissions.within_nominal(line),
                tuple(self._permissions.borrowable(line, one) for one in members.flavors),
                room.by_eviction,
            )
        )
        if room.by_eviction:
            line.hope(pending, room.flavor)
        else:
            pending.flavor = room.flavor
            self.tree.promise(line.name, room.flavor, pending.request)

    def _withdraw(self, pending: Pending, *, window_freed: bool = True) -> None:
        self._close(pending, window_freed=window_freed)
        self.decisions.append(Withdraw(pending, pending.nomination))

    def _close(
        self, pending: Pending, *, quota_freed: bool = True, window_freed: bool = True
    ) -> None:
        """An open nomination is no longer open; wakes those whom what it frees can help."""
        line = self.lines[pending.queue]
        if pending.phase is Phase.OFFERED:
            self._uncount(pending)
            if quota_freed:
                self._wake(pending.queue)
        else:
            line.refused.discard(pending)
        if pending.hopes_in:
            line.hope(pending, "")
            self._wake(pending.queue)
        del line.open[pending.id]
        self._open -= 1
        pending.phase = Phase.IDLE
        if window_freed and self._blocked_window:
            self._dirty.update(self._blocked_window)
            self._blocked_window.clear()

    def _uncount(self, pending: Pending) -> None:
        """Its answer is no longer waited for; what hopes for room was never counted."""
        if not pending.flavor:
            return
        self.tree.promise(pending.queue, pending.flavor, pending.request, -1)
        pending.flavor = ""

    def _wake(self, queue: str) -> None:
        """Quota of `queue` was freed: look at it, and at those whom a common ancestor blocked."""
        line = self.line(queue)
        if line.classes:
            self._look_at(line)
        for kept in self._permissions.kept_from_above(line.node.root.name).values():
            self._look_at(kept)

    def _refuse(self, pending: Pending, refusal: Refusal) -> None:
        self.decisions.append(Refuse(pending, refusal))

    def _reconsider(self, line: Line) -> None:
        """The rules of a line changed: check what is open, look again, tell the reasons anew."""
        line.suspects = list(line.open.values())
        line.retell = True
        self._look_at(line)

    def _look_at(self, line: Line) -> None:
        """Look at a line when the batch settles."""
        self._dirty[line.name] = line
        self._stirred.add(line.node.root.name)

    def _is_stirred(self, line: Line) -> bool:
        """Whether somebody in the tree may be helped already by what came in before."""
        return bool(self._stirred) and line.node.root.name in self._stirred


def _give_anew(line: Line) -> None:
    """What is open in a line was given under rules that hold no more."""
    for pending in line.open.values():
        pending.offered = _OTHER_RULES


_OTHER_RULES: Final = ("",)
"""Flavors of a nomination that was given under rules that hold no more; no queue has them."""
_OPEN: Final = frozenset((Phase.OFFERED, Phase.REFUSED))
