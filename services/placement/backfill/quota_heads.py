"""For what quota is kept: the first that lacks it or waits for its promised nodes (ADR 54).

One in each flavor of each tree of the quota. Nothing of it is stored: a lack of quota is
seen when a workload is tried. As work ends earlier or later than was said, it is worked out anew
now and then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from services.placement.backfill.headroom import Headroom
from services.placement.backfill.kept_quota import Kept, KeptQuota, Place
from services.placement.backfill.promises import Promises
from services.placement.state.records import Record, Records
from services.placement.state.usage import Usage
from shared.core.backfill.kept_quota import Keeping, QuotaHolder, keeping
from shared.core.backfill.timeline import NEVER, expected_end
from shared.core.model.amounts import amount
from shared.core.model.lifecycle import State
from shared.core.model.units import UNLIMITED
from shared.core.quota.fair_share import within_nominal
from shared.events.deadlines import deadline_message
from shared.events.envelope import Received

DUE: Final = "quota-head"
"""Kind of the message on which it is worked out anew."""
SOON_MS: Final = 1_000
AGAIN_MS: Final = 10_000
"""It is worked out anew no sooner than the one after the last time, and no later than the other,
but at once when one for which quota was kept waits no more."""
MISSED_MAX: Final = 20
TRIES_MAX: Final = 8
"""So many are asked for in a place, until time brings one of them its quota."""
_HOLDS: Final = frozenset((State.PLACED, State.BOUND, State.RUNNING))


class QuotaHeads:
    """Those of one cell, and in `kept` what is kept for them."""

    def __init__(
        self,
        usage: Usage,
        records: Records,
        headroom: Headroom,
        promises: Promises,
        kept: KeptQuota,
    ) -> None:
        self._usage, self._records, self._headroom = usage, records, headroom
        self._promises, self.kept = promises, kept
        self._lacking: dict[str, None] = {}
        """Workloads that were tried while quota was short."""
        self._planned_ms, self._stale = 0, False

    def tried(self, record: Record) -> None:
        """It was tried, or could not be, and waits: perhaps for quota."""
        if record.workload.id not in self._lacking and not self._headroom.quota_is_there(record):
            self._lacking[record.workload.id] = None
            self._stale = True

    def plan(self) -> list[str]:
        """Work it out anew if need be; the nodes of the tree where others may use more then."""
        before, now_ms = self.kept.at, self.kept.now_ms
        left = any(not self.kept.waits(one.record) for one in before.values())
        if not left and now_ms < self._again_ms():
            return []
        if not (self._lacking or before or self._promises.standing):
            return []
        self._stale, self._planned_ms = False, now_ms
        self.kept.at = {}
        self._keep(self._in_order(), before)
        return [
            level
            for place, old in before.items()
            for level in old.levels
            if _is_looser(old, self.kept.at.get(place))
        ]

    # ── what is first ──

    def _in_order(self) -> list[Record]:
        """Those that still lack quota, or wait for promised nodes, by turn."""
        alive, kept = self._records.alive, self.kept
        found = [alive[one] for one in self._lacking if one in alive and kept.waits(alive[one])]
        found = [one for one in found if not self._headroom.quota_is_there(one)]
        self._lacking = {one.workload.id: None for one in found}
        promised = [alive[one.workload_id] for one in self._promises.standing]
        found += [one for one in promised if one.workload.id not in self._lacking]
        return sorted(found, key=kept.turn)

    def _keep(self, ordered: Sequence[Record], before: Mapping[Place, Kept]) -> None:
        """For the first in each place to which time brings quota; for each in one place."""
        holders = self._holders({place for one in ordered for place in self._places(one)})
        tries: Counter[Place] = Counter()
        for record in ordered:
            found: dict[Place, Keeping] = {}
            for place in self._places(record):
                if place in self.kept.at or tries[place] == TRIES_MAX:
                    continue
                tries[place] += 1
                keeps = self._keeping(record, place, holders[place])
                if keeps is not None:
                    found[place] = keeps
            if found:
                place = min(found, key=lambda one: found[one].until_ms)
                self.kept.at[place] = self._believed(record, found[place], before.get(place))

    def _places(self, record: Record) -> list[Place]:
        """Where quota may be kept for it: where its nodes are promised, else in its flavors."""
        nomination, promise = record.nomination, self._promises.of(record.workload.id)
        assert nomination is not None
        queue = self._usage.tree.node(record.workload.queue)
        flavors = nomination.flavors if promise is None else (promise.flavor,)
        return [
            (queue.root.name, one)
            for one in flavors
            if self._usage.names(queue.name, one)
            and (not nomination.within_nominal or within_nominal(queue, one, record.least))
        ]

    # ── what is kept ──

    def _keeping(
        self, record: Record, place: Place, holders: Iterable[QuotaHolder]
    ) -> Keeping | None:
        tree, promise = self._usage.tree, self._promises.of(record.workload.id)
        queue, start_ms = tree.node(record.workload.queue), promise.start_ms if promise else 0
        return keeping(tree, queue, place[1], record.least, holders, start_ms=start_ms)

    def _believed(self, record: Record, found: Keeping, old: Kept | None) -> Kept:
        """As far as what others say of their lengths can be relied on."""
        missed = 0
        if old is not None and old.record is record:
            missed = min(old.missed + int(found.until_ms > old.until_ms), MISSED_MAX)
        gpu, cpu, memory = (one if one >= UNLIMITED else one >> missed for one in found.spare)
        return Kept(
            record=record,
            turn=self.kept.turn(record),
            levels=found.levels,
            until_ms=found.until_ms,
            spare=(gpu, cpu, memory),
            missed=missed,
        )

    def _holders(self, places: Collection[Place]) -> dict[Place, list[QuotaHolder]]:
        """What is charged there, but for what leaves already. O(workloads)."""
        found: dict[Place, list[QuotaHolder]] = {place: [] for place in places}
        now_ms, length_ms = self.kept.now_ms, self._promises.length_ms
        for record in self._records.alive.values() if places else ():
            queue = self._usage.tree.nodes.get(record.workload.queue)
            if record.placement is None or record.state not in _HOLDS or queue is None:
                continue
            place = queue.root.name, record.placement.flavor
            if place in found:
                end_ms = expected_end((record.began_at_ms or now_ms, length_ms(record)), now_ms)
                found[place].append(
                    QuotaHolder(end_ms, queue.name, amount(record.placement.charge))
                )
        return found

    # ── time ──

    def next_due_ms(self) -> int | None:
        """When it is to be worked out anew."""
        return self._again_ms() if self.kept.at or self._stale else None

    def _again_ms(self) -> int:
        """When the first of the times passes or another lacks quota, but not at once; or later."""
        until_ms = min((one.until_ms for one in self.kept.at.values()), default=NEVER)
        after_ms = 0 if self._stale else until_ms - self._planned_ms
        return self._planned_ms + min(max(after_ms, SOON_MS), AGAIN_MS)

    def due(self, now_ms: int) -> list[Received]:
        """The message for that."""
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > now_ms:
            return []
        # By the time of now: what is due at once after a start was due so after the last one.
        return [deadline_message(DUE, "heads", 0, now_ms)]


def _is_looser(old: Kept, new: Kept | None) -> bool:
    """Whether others may use more than before."""
    if new is None or new.record is not old.record or new.levels != old.levels:
        return True
    return new.until_ms > old.until_ms or any(
        now > then for now, then in zip(new.spare, old.spare, strict=True)
    )
