"""The conclusions of a batch: what may go now is nominated, others are told why not.

At most `TURN_MAX` nominations and as many withdrawals at once; what is left goes on in the next
turn. Where queues of a tree want the same room, or the window could fill, they nominate in the
order of core/queueing/nomination/turns.py; a line without rivals for its room goes on alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from shared.core.queueing.nomination.changed_queues import ChangedQueues
from shared.core.queueing.nomination.next_of_own import next_few
from shared.core.queueing.nomination.pending_queue import PendingQueue
from shared.core.queueing.nomination.permission import Permissions
from shared.core.queueing.nomination.telling import ReasonTeller
from shared.core.queueing.nomination.turns import Turn, Use, take_turns
from shared.core.queueing.nomination.walk import Walk
from shared.core.queueing.nomination.window import OPEN, NominationWindow

TURN_MAX: Final = 1_000
"""Nominations in one turn; what is left goes on in the next."""


class NominationCycle:
    """Draws the conclusions; `used` is what a queue used over time."""

    def __init__(
        self,
        agenda: ChangedQueues,
        window: NominationWindow,
        permissions: Permissions,
        teller: ReasonTeller,
    ) -> None:
        self._agenda = agenda
        self._window = window
        self._permissions = permissions
        self._teller = teller
        self.unannounced: dict[str, PendingQueue] = {}
        """Where others may have become the next since the last announcement."""

    @property
    def contended(self) -> bool:
        """Whether one turn could fill the window: then queues take it in their order."""
        return self._window.count + TURN_MAX > self._window.open_max

    def settle(self, used: Use, *, announce: bool) -> None:
        """Look at the lines that are due; those with more to do are due again.

        Without `announce` the announced workloads stay the same until a later call.
        """
        lines = self._agenda.take()
        self._permissions.hope.forget()
        share = max(1, TURN_MAX // max(1, len(lines)))
        for line in lines:
            self._recheck(line, share)
        ready = [line for line in lines if not line.suspects and not line.held]
        left = self._go(ready, share, used)
        self._announce(lines, left, announce=announce)
        for line in lines:
            self._teller.tell_line(line, self._window.count)
        for line in (*left, *(one for one in lines if one.suspects)):
            self._agenda.look_at(line)

    def _announce(
        self, lines: Sequence[PendingQueue], left: Sequence[PendingQueue], *, announce: bool
    ) -> None:
        """Tell placement what is next, except where it is not settled yet what goes."""
        later = {line.name for line in left}
        for line in lines:
            if line.retell:  # under rules that hold no more
                self._window.announce(line, {})
            if line.name not in later and not line.suspects:
                self.unannounced[line.name] = line
        if announce:
            for line in self.unannounced.values():
                self._window.announce(line, next_few(line, self._permissions))
            self.unannounced.clear()

    def _recheck(self, line: PendingQueue, share: int) -> None:
        """Withdraw nominations that the rules would not give any more, or not like this."""
        for _ in range(min(share, len(line.suspects))):
            pending = line.suspects.pop()
            if pending.phase in OPEN and (
                line.held or pending.offered != self._permissions.for_pending(line, pending)
            ):
                self._window.withdraw(pending)
                line.enter(pending)

    def _go(self, lines: Sequence[PendingQueue], share: int, used: Use) -> list[PendingQueue]:
        """Nominate; the lines that have more to do."""
        if self.contended:
            return self._take_turns(lines, used)
        rivals = Counter(line.node.root.name for line in lines)
        left = []
        disputed = []
        for line in lines:
            if rivals[line.node.root.name] > 1:
                disputed.append(line)
            elif self._turn(line, share):
                left.append(line)
        return left + self._take_turns(disputed, used)

    def _turn(self, line: PendingQueue, share: int) -> bool:
        """Nominate in order; whether the share was used up with more to do."""
        walk = Walk(line, self._permissions)
        for _ in range(share):
            turn = walk.first()
            if turn is None or not self._take(line, turn):
                return False
        return walk.first() is not None

    def _take_turns(self, lines: Sequence[PendingQueue], used: Use) -> list[PendingQueue]:
        walks = {line.name: Walk(line, self._permissions) for line in lines}
        return take_turns(lines, lambda line: walks[line.name].first(), self._take, used, TURN_MAX)

    def _take(self, line: PendingQueue, turn: Turn) -> bool:
        """Nominate, if the window has room; whether it had."""
        if not self._window.has_room_for(line, turn.pending):
            return False
        self._window.offer(line, turn.members, turn.pending, turn.room)
        if not turn.room.by_eviction:
            self._permissions.hope.grew(line.node)
        return True
