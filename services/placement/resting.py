"""Why classes of requests rest, and what could help them.

A class was refused for a reason. Nodes that became freer may help it, if one of its pods has room
there; quota may, unless nodes alone were missing. And when its turn comes, others may have taken
what woke it: then the refusal of before still holds, and nobody has to search again.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Final, NamedTuple

from services.placement.desk import Desk
from services.placement.freed_room import FreedRoom
from services.placement.records import Record
from shared.core.decision import Reason, Refusal
from shared.core.placement import helps_any

REASONS_MAX: Final = 20_000
"""Reasons of classes kept; beyond it, those of classes that wait no more are dropped."""


class Lack(NamedTuple):
    """A class was refused although it had quota in each of its flavors."""

    rooms: tuple[int, ...]
    """The rooms that were open to it."""
    pins: frozenset[int]
    """Kept nodes that it could have used, those of the rooms among them."""
    borrows: bool
    """It may get other nodes by being owed."""


class Resting:
    """The reasons of the classes of one cell, and the nodes that became freer."""

    def __init__(self, desk: Desk) -> None:
        self.freed = FreedRoom(desk.cluster)
        self._desk = desk
        self._reasons: dict[Hashable, Refusal] = {}
        self._lacks_nodes: dict[Hashable, Lack] = {}

    def reason(self, request: Hashable) -> Refusal | None:
        """What the class was told last."""
        return self._reasons.get(request)

    def refused(self, record: Record, request: Hashable, refusal: Refusal) -> Refusal | None:
        """The class rests for this reason; the one before."""
        known = self._reasons.get(request)
        self._reasons[request] = refusal
        if self._desk.turns.has_quota_everywhere(record):
            rooms = self._desk.promises.rooms_for(record, self._desk.now_ms)
            borrows = self._desk.turns.borrows(record.workload.id)
            self._lacks_nodes[request] = Lack(
                rooms, frozenset(self._desk.pins_for(record)), borrows
            )
        return known

    def forget(self, request: Hashable) -> None:
        """The class is tried anew, whatever it was told."""
        self._reasons.pop(request, None)

    def trim(self) -> None:
        """Keep only those of classes that rest, once there are many."""
        if len(self._reasons) > REASONS_MAX:
            resting = self._desk.waiting.resting
            self._reasons = {one: why for one, why in self._reasons.items() if resting(one)}
            lacks = self._lacks_nodes.items()
            self._lacks_nodes = {one: lack for one, lack in lacks if one in self._reasons}

    def rests(self, request: Hashable) -> None:
        """Nothing is known about its nodes until it is refused."""
        self._lacks_nodes.pop(request, None)

    def can_help(self, record: Record, request: Hashable, queues: Collection[str]) -> bool:
        """Whether the freed nodes, or quota that came free in `queues`, could help its class."""
        assert record.nomination is not None
        if self._still_lacks_quota(record, request):
            return False
        path = self._desk.usage.path(record.workload.queue) if queues else ()
        if any(name in queues for name in path) and self._may_lack_quota(record, request):
            return True
        names = self._nodes_for(record)
        if not names or self._lack(record, request) is not None:
            return bool(names)  # its turn will show: by then others may have taken them
        return self._any_helps(names, record, self._desk.pins_for(record))

    def still_holds(self, record: Record, request: Hashable) -> Refusal | None:
        """What it was told, if it would be told the same again: nothing is left that could help.

        It lacked no quota then, and may use no other nodes by now.
        """
        lack, known = self._lack(record, request), self._reasons.get(request)
        if lack is None or known is None:
            return None
        pins = self._desk.pins_for(record)
        if not lack.pins.issuperset(pins):
            return None
        names = self._nodes_for(record)
        return None if names and self._any_helps(names, record, pins) else known

    def _lack(self, record: Record, request: Hashable) -> Lack | None:
        """That of its class; of a strict queue another one may have been told."""
        assert record.nomination is not None
        return None if record.nomination.strict else self._lacks_nodes.get(request)

    def _nodes_for(self, record: Record) -> list[str]:
        assert record.nomination is not None
        return self.freed.nodes_for(record.workload, record.nomination.flavors)

    def _any_helps(self, names: Iterable[str], record: Record, pins: tuple[int, ...]) -> bool:
        return helps_any(self._desk.cluster, names, record.workload, pins)

    def _still_lacks_quota(self, record: Record, request: Hashable) -> bool:
        """Whether its class was told so, and would hear it again."""
        refusal = self._reasons.get(request)
        told = refusal is not None and refusal.reason is Reason.WAITING_FOR_QUOTA
        return told and not self._desk.turns.has_quota(record)

    def _may_lack_quota(self, record: Record, request: Hashable) -> bool:
        """Not who was refused for nodes alone, unless time has opened a room to him since."""
        lack = self._lacks_nodes.get(request)
        if lack is None or lack.borrows:
            return True
        return lack.rooms != self._desk.promises.rooms_for(record, self._desk.now_ms)
