"""Why request classes are inadmissible, and what makes them admissible again.

A class was refused for a reason. Nodes that became freer may help it, if one of its pods has room
there; quota may, unless nodes alone were missing. A class that lacks nodes alone stays
inadmissible by the room that it lacks (core/queueing/waiting.py): while nothing of it is left, no
class that lacks the same is asked. By time, and by what is used, it may also be let on nodes that
are kept for others: some are looked at for that in every batch. What is next for what its queue
owns stays inadmissible by that (ADR 50).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Final, NamedTuple

from services.placement.cycle.freed_room import FreedRoom, LackedRoom
from services.placement.state.queue_order import OwnQuota
from services.placement.state.records import Record
from services.placement.unit.cell_state import CellState
from shared.core.model.amounts import Amount
from shared.core.model.decision import Reason, Refusal
from shared.core.placement.place import helps

REASONS_MAX: Final = 20_000
"""Reasons of classes kept; beyond it, those of classes that wait no more are dropped."""
LOOK_AFTER_MS: Final = 60_000
"""A class that lacks nodes is looked at again: it may be let on nodes kept for others."""
LOOKS_MAX: Final = 20
"""So many in one batch."""


class Lack(NamedTuple):
    """A class was refused although it had quota in each of its flavors."""

    room: LackedRoom
    pins: frozenset[int]
    """Kept nodes that it could use when it was last looked at."""
    borrows: bool
    """It may get other nodes by being owed."""
    seen_ms: int


class Inadmissible:
    """The reasons of the classes of one cell, and the nodes that became freer."""

    def __init__(self, state: CellState) -> None:
        self._state = state
        self._freed = FreedRoom(state.cluster)
        self._reasons: dict[Hashable, Refusal] = {}
        self._lacks: dict[Hashable, Lack] = {}
        """What was looked at the longest ago comes first."""
        self._patient: dict[str, dict[Hashable, AbstractSet[str]]] = {}
        """By queue: classes that borrow nothing as long as it owns enough, and where it does."""
        self._taken: dict[str, Mapping[str, Amount]] = {}
        """By queue: what was taken when these were looked at last."""
        self._next: dict[Hashable, OwnQuota] = {}
        """Classes that are inadmissible until their queue owns room for them again."""
        self._helps: dict[Hashable, bool] = {}
        """What the freed nodes can help, as far as it was asked since the last placement."""
        self._bereft: dict[Hashable, None] = {}
        """Classes of which the first has started in this round."""

    def reason(self, request: Hashable) -> Refusal | None:
        """What the class was told last."""
        return self._reasons.get(request)

    def refused(self, record: Record, request: Hashable, refusal: Refusal) -> Refusal | None:
        """The class is to rest for this reason; the one before."""
        known = self._reasons.get(request)
        self._reasons[request] = refusal
        self._lacks.pop(request, None)
        turns = self._state.queue_order
        self._waits_for_own(record, request)
        if self._state.headroom.has_quota_everywhere(record) and not _strict(record):
            pins, borrows = self._state.pins_for(record), turns.borrows(record.workload.id)
            lack = Lack(self._room(record), frozenset(pins), borrows, self._state.unit.now_ms)
            self._lacks[request] = lack
        return known

    def lacks(self, request: Hashable) -> LackedRoom | OwnQuota | None:
        """What without which nothing helps the class; None where anything may."""
        lack = self._lacks.get(request)
        return lack.room if lack is not None else self._next.get(request)

    def forget(self, request: Hashable) -> None:
        """The class is tried anew, whatever it was told."""
        self._reasons.pop(request, None)

    def until_owned(self, record: Record, request: Hashable) -> None:
        """The class is to rest until its queue owns room for it, without a word."""
        self._next[request] = self._state.queue_order.own_quota(record)

    def trim(self) -> None:
        """Keep only those of classes that wait, once there are many."""
        if len(self._reasons) > REASONS_MAX:
            waits = self._state.waiting.waits
            self._reasons = {one: why for one, why in self._reasons.items() if waits(one)}
            self._lacks = {one: lack for one, lack in self._lacks.items() if waits(one)}
        if len(self._next) > REASONS_MAX:
            waits = self._state.waiting.waits
            self._next = {one: quota for one, quota in self._next.items() if waits(one)}

    def _waits_for_own(self, record: Record, request: Hashable) -> None:
        assert record.nomination is not None
        tried = self._state.headroom.of(record)
        if len(tried) < len(record.nomination.flavors):
            self._patient.setdefault(record.workload.queue, {})[request] = tried.keys()

    def may_borrow_now(self) -> list[Hashable]:
        """Classes for which their queues own too little, as others of the queue took of it.

        O(patient classes of the queues where what is taken has changed).
        """
        found, headroom = [], self._state.headroom
        for queue, classes in self._patient.items():
            taken = headroom.taken(queue)
            if self._taken.get(queue) == taken:
                continue
            self._taken[queue] = taken
            for request, tried in list(classes.items()):
                record = self._at_rest(request)
                if record is None or headroom.of(record).keys() > tried:
                    del classes[request]
                    found += [request] if record is not None else []
        return found

    # ── nodes that became freer ──

    def freed(self, names: Iterable[str]) -> None:
        """Something became free or better on these nodes."""
        self._freed.add(names)
        self._helps = {}

    def taken(self, flavor: str, names: AbstractSet[str]) -> None:
        """Something was placed on these nodes."""
        self._freed.taken(flavor, names)
        self._helps = {asked: known for asked, known in self._helps.items() if not known}

    def all_were_tried(self) -> None:
        """Nothing is left that the freed nodes could help."""
        self._freed.forget()

    # ── what may be helped ──

    def is_free(self, lacked: LackedRoom | OwnQuota) -> bool:
        """Whether freed nodes may have something of this room, or the queue owns some again."""
        if isinstance(lacked, OwnQuota):
            return self._state.queue_order.owns_some(lacked)
        return bool(self._freed.nodes_for(lacked))

    def can_help(self, record: Record, request: Hashable, queues: Collection[str]) -> bool:
        """Whether the freed nodes, or quota of `queues`, could help a class that lacks more.

        Not one that was told that quota is short, and would be told it again.
        """
        refusal, headroom = self._reasons.get(request), self._state.headroom
        reason = refusal.reason if refusal is not None else None
        if reason is Reason.WAITING_FOR_QUOTA and not headroom.quota_is_there(record):
            return False
        if reason is Reason.QUOTA_KEPT and not headroom.has_quota(record):
            return False
        if queues and any(
            name in queues for name in self._state.usage.path(record.workload.queue)
        ):
            return True
        names = self._freed.nodes_for(self._room(record))
        return bool(names) and self._any_helps(names, record, self._state.pins_for(record))

    def passes(self, record: Record, request: Hashable) -> bool:
        """Whether what is left of what its class lacks is of no use to it."""
        if request in self._next:
            return self._state.queue_order.borrows(record.workload.id)
        room = self._lacks[request].room
        asked = (room, record.request_class, self._state.pins_for(record))
        known = self._helps.get(asked)
        if known is None:
            names = self._freed.nodes_for(room)
            known = self._helps[asked] = self._any_helps(names, record, asked[2])
        return not known

    def look_again(self, queues: Collection[str]) -> list[Hashable]:
        """Classes that may use other kept nodes by now: as they are owed, or by time.

        All that borrowed are asked once quota of `queues` came free, of the others those not
        looked at for long, and these may be promised a start.
        """
        owed = self._owed_by_now() if queues and self._state.promises.standing else []
        return owed + [one for one in self._oldest() if self._gains(one)]

    def _owed_by_now(self) -> list[Hashable]:
        return [
            request
            for request, lack in self._lacks.items()
            if lack.borrows
            and (record := self._at_rest(request)) is not None
            and not self._state.queue_order.borrows(record.workload.id)
        ]

    def _oldest(self) -> list[Hashable]:
        """Those that are due to be looked at."""
        before_ms = self._state.unit.now_ms - LOOK_AFTER_MS
        first = islice(self._lacks.items(), LOOKS_MAX)
        return [request for request, lack in first if lack.seen_ms <= before_ms]

    def _gains(self, request: Hashable) -> bool:
        """Look at a class; unless none of it waits, it goes to the end of those to look at."""
        lack, record = self._lacks.pop(request), self._at_rest(request)
        if record is None:
            if self._state.waiting.waits(request):
                self._lacks[request] = lack
            return False
        self._speaks(record, request)
        pins = frozenset(self._state.pins_for(record))
        self._lacks[request] = lack._replace(pins=pins, seen_ms=self._state.unit.now_ms)
        return not lack.pins.issuperset(pins)

    def started(self, request: Hashable) -> None:
        """The head of a class was placed: the next speaks for it, if the class rests then."""
        self._bereft[request] = None

    def next_speak(self) -> None:
        """Those behind what was placed may be promised a start."""
        bereft, self._bereft = self._bereft, {}
        for request in [one for one in bereft if one in self._lacks]:
            record = self._at_rest(request)
            if record is not None:
                self._speaks(record, request)

    def _speaks(self, record: Record, request: Hashable) -> None:
        state = self._state
        state.promises.refused(record, request, self._reasons[request], state.unit.now_ms)

    def _at_rest(self, request: Hashable) -> Record | None:
        """The head of an inadmissible class."""
        head = self._state.waiting.inadmissible_head(request)
        return self._state.records.alive[head] if head is not None else None

    def _room(self, record: Record) -> LackedRoom:
        assert record.nomination is not None
        return self._freed.room_of(record.workload, record.nomination.flavors)

    def _any_helps(self, names: Iterable[str], record: Record, pins: tuple[int, ...]) -> bool:
        return helps(self._state.cluster, names, record.workload, pins)


def _strict(record: Record) -> bool:
    """Of a strict queue another one may be told the next time."""
    return record.nomination is not None and record.nomination.strict
