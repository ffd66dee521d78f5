"""Makes running gangs larger that run with fewer pods than they asked for, where nothing waits.

And smaller, at once, gangs for which their owners asked for fewer.

Looked at after the cycle of a unit, so what is left then fits nothing that waits. A gang grows in
its flavor only while no refused class waits there for room: those have permission and a place in
the order, the gang runs already. What waits for quota wants no room. What makes room for another
does not grow before that one is placed, which waits for whatever its victims have beyond the plan.

The oldest of the highest priority goes first, a few in each unit. What finds no room is asked
again when something is given back, or after a while, because what stood in its way may have left.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection
from itertools import islice
from typing import Final

from services.placement.cycle.scheduling_cycle import SchedulingCycle
from services.placement.state.records import Record
from services.placement.unit.cell_state import CellState
from services.placement.workloads import resizing
from shared.core.model.decision import Reason
from shared.core.model.lifecycle import State
from shared.core.placement.place import PlacementRequest, grow
from shared.events.deadlines import deadline_message
from shared.events.envelope import Received

TRIED_MAX: Final = 16
"""Gangs tried in one unit."""
CLASSES_MAX: Final = 256
"""With more classes that rest than these, the cell is too crowded for anyone to grow."""
PAUSE_MS: Final = 200
"""Between two units that go on where the bound cut the tries short."""
AGAIN_MS: Final = 30_000
NO_ROOM_WANTED: Final = frozenset(
    {Reason.WAITING_FOR_QUOTA, Reason.QUOTA_KEPT, Reason.EXCEEDS_QUOTA, Reason.QUEUE_HELD}
)


class Growth:
    """The gangs of one cell that may grow, in order."""

    def __init__(self, state: CellState, cycle: SchedulingCycle) -> None:
        self._state = state
        self._cycle = cycle
        self._small: dict[str, None] = {}
        self._line: list[tuple[int, int, str]] = []
        """Heap of those to try: (-priority, submitted_at_ms, id)."""
        self._later: list[tuple[int, str]] = []
        """Heap of (due_ms, id) of those that found no room or rest."""
        self._tried_at_ms = 0

    def load(self) -> None:
        """Note every gang that runs with another size than it is to have."""
        for record in self._state.records.alive.values():
            if record.state is State.RUNNING and _missing(record):
                self._state.off_size[record.workload.id] = None

    def run(self) -> None:
        """Try the next few, if there is a reason to."""
        self._gather()
        if not self._line or self._cycle.unfinished:
            return
        self._tried_at_ms = self._state.unit.now_ms
        wanted = self._wanted()
        for _ in range(TRIED_MAX):
            if not self._line:
                break
            before, _, name = heapq.heappop(self._line)
            record = self._state.records.alive.get(name)
            if record is not None and record.priority != -before:
                continue  # it stands there once more, by the priority that it has now
            if record is None or record.state is not State.RUNNING or not _missing(record):
                self._small.pop(name, None)
            elif not record.resize.open and _missing(record) < 0:
                self._settle(record)
            elif not record.resize.open:
                self._try(record, wanted)

    def _gather(self) -> None:
        """Put into the line what is off its size, what is due, and all when room came."""
        state = self._state
        names: dict[str, None] = {}
        if state.off_size:
            names, state.off_size = state.off_size, {}
            self._small.update(names)
        if self._small and not self._line and (state.unit.freed_nodes or state.unit.freed_queues):
            names = self._small
            self._later = []
        while self._later and self._later[0][0] <= state.unit.now_ms:
            names = {**names, heapq.heappop(self._later)[1]: None}
        for name in names:
            record = state.records.alive.get(name)
            if record is not None:
                key = (-record.priority, record.workload.submitted_at_ms, name)
                heapq.heappush(self._line, key)

    def _wanted(self) -> Collection[str] | None:
        """Flavors in which someone waits for room; None when too many wait to say."""
        refused = list(islice(self._cycle.refused(), CLASSES_MAX + 1))
        if len(refused) > CLASSES_MAX:
            return None
        return {
            flavor
            for record, refusal in refused
            if refusal.reason not in NO_ROOM_WANTED and record.nomination is not None
            for flavor in record.nomination.flavors
        }

    def _settle(self, record: Record) -> None:
        cause = self._state.unit.last_cause
        assert cause is not None
        resizing.settle(self._state, record, cause)

    def _try(self, record: Record, wanted: Collection[str] | None) -> None:
        state, placement = self._state, record.placement
        assert placement is not None
        assert state.unit.last_cause is not None
        rests_until_ms = record.resize.rests_until_ms
        if rests_until_ms > state.unit.now_ms:
            self._again(record, rests_until_ms)
            return
        queue, flavor = record.workload.queue, placement.flavor
        added = None
        if (
            wanted is not None
            and flavor not in wanted
            and not state.reservations.name_victim(record)
            and state.usage.names(queue, flavor)
            and state.spent_budgets.may_grow(record.workload.team, flavor)
        ):
            room = state.headroom.room(record, flavor)
            headroom = {flavor: state.kept_quota.limit(record, flavor, room)}
            request = PlacementRequest(workload=record.sized, flavors=(flavor,), headroom=headroom)
            added = grow(state.cluster, request, placement)
        if added is None:
            self._again(record, state.unit.now_ms + AGAIN_MS)
        else:
            state.kept_quota.took(record, flavor, added.charge)
            resizing.grow(state, record, added, state.unit.last_cause)

    def _again(self, record: Record, due_ms: int) -> None:
        heapq.heappush(self._later, (due_ms, record.workload.id))

    def rest(self, now_ms: int) -> list[Received]:
        """The message on which those that are due are tried; its id follows from a cause."""
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > now_ms:
            return []
        cause = self._state.unit.last_cause
        name = cause.event.id if cause is not None else f"epoch-{self._state.epoch}"
        return [deadline_message("growth", name, self._state.epoch, now_ms)]

    def next_due_ms(self) -> int | None:
        """When the next ones are to be tried."""
        if self._state.off_size:
            return 0
        if self._line:
            return self._tried_at_ms + PAUSE_MS
        return self._later[0][0] if self._later else None


def _missing(record: Record) -> int:
    assert record.placement is not None
    return record.size - len(record.placement.pods)
