"""What like work makes of its GPUs, by week: evidence for what would be enough (ADR 94).

Like work is of one team, kind, image and name without its counter, and holds as much of a flavor.
Only whole GPUs and time-sliced shares are followed: of a MIG instance no memory is told. The
memory of a GPU is that of its holder only while there is one.

It is written down when it is told, so a kill loses the last minute of evidence, of no sum that
anything is held to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from services.monitoring.memory import CLASS, MonitoringMemory
from services.monitoring.use_memory import ClassUse, NodeUse
from shared.core.quota.cost import DAY_MS
from shared.core.rightsize import memory_class
from shared.core.usage import UNREAD, WHOLE_MASK, UseAmounts
from shared.events.usage import WorkClassUse

CLASSES_MAX: Final = 5_000
"""Classes of one week in one cell; of more nothing is seen."""
TELL_MS: Final = 60_000
"""A class is told no more often."""
TOLD_AT_ONCE: Final = 20
"""Classes in a second at most, but for the end of a week."""
TOLD_TOGETHER: Final = 100
"""Classes in one message at most."""


class LikeWork:
    """The classes of one cell."""

    def __init__(self, memory: MonitoringMemory) -> None:
        self._memory = memory
        self._keys: dict[str, str] = {}
        """Class of a workload that holds GPUs; empty: it is not followed."""
        self._changed: dict[str, int] = {}
        """Classes with something to tell, and since when; the oldest first."""
        self._over: list[ClassUse] = []
        """Of weeks that are over."""

    def settled(self, workload_id: str, at_ms: int, amounts: UseAmounts) -> None:
        """A part of what it holds is known to be used, unused or unmeasured."""
        seen = self._class_of(workload_id, at_ms)
        if seen is not None:
            seen.used += amounts.used
            seen.unused += amounts.unused
            seen.unmeasured += amounts.unmeasured

    def read(
        self,
        node: NodeUse,
        held: Mapping[str, Sequence[tuple[int, int, int]]],
        from_ms: int,
        until_ms: int,
    ) -> None:
        """The newest reading of a node counts for a span of time. O(shares)."""
        weight_ms = node.reading.counted_ms(from_ms, until_ms)
        if not weight_ms:
            return
        on_gpu, holders = Counter[int](), Counter[int]()
        for shares in held.values():
            for gpu, milli, _ in shares:
                on_gpu[gpu] += milli
                holders[gpu] += 1
        for workload_id, shares in held.items():
            seen = self._class_of(workload_id, until_ms)
            for gpu, milli, _ in shares if seen is not None else ():
                percent = node.percent[gpu] if gpu < len(node.percent) else UNREAD
                if seen is None or percent == UNREAD:
                    continue
                own = min(-(-percent * milli // max(on_gpu[gpu], 1)), -(-milli // 10))
                seen.percents[own] = seen.percents.get(own, 0) + weight_ms
                if holders[gpu] == 1 and gpu < len(node.memory_mib):
                    memory = memory_class(node.memory_mib[gpu])
                    seen.memory[memory] = seen.memory.get(memory, 0) + weight_ms

    def forget(self, workload_id: str) -> None:
        """It holds nothing any more."""
        self._keys.pop(workload_id, None)

    def told(self, now_ms: int) -> Iterator[tuple[WorkClassUse, ...]]:
        """What there is to tell, in messages."""
        over, self._over = self._over, []
        told = [_wire(one) for one in over]
        for key, since_ms in list(islice(self._changed.items(), TOLD_AT_ONCE)):
            if now_ms - since_ms < TELL_MS:
                break
            del self._changed[key]
            seen = self._memory.classes[key]
            self._memory.journal.put(CLASS, key, seen)
            told.append(_wire(seen))
        for at in range(0, len(told), TOLD_TOGETHER):
            yield tuple(told[at : at + TOLD_TOGETHER])

    def _class_of(self, workload_id: str, at_ms: int) -> ClassUse | None:
        key = self._keys.get(workload_id)
        if key is None:
            key = self._key_of(workload_id)
        if not key:
            return None
        classes = self._memory.classes
        week = week_of(at_ms)
        seen = classes.get(key)
        if seen is None or seen.week < week:
            if seen is None and len(classes) >= CLASSES_MAX:
                self._drop_before(week)
            elif seen is not None and key in self._changed:
                self._over.append(seen)
            if seen is None and len(classes) >= CLASSES_MAX:
                return None
            seen = classes[key] = self._begin(workload_id, week)
        self._changed.setdefault(key, at_ms)
        return seen

    def _key_of(self, workload_id: str) -> str:
        """What tells its class from others; unknown until it is read what it is."""
        one, devices = self._memory.workloads.get(workload_id), self._memory.devices
        held = devices.get(workload_id, ())
        if one is None or not one.kind or not held:
            return ""
        followed = len({milli for _, _, milli, _ in held}) == 1 and all(
            mask in {0, WHOLE_MASK} for _, _, _, mask in held
        )
        parts = (one.team, one.kind, one.stem, one.flavor, len(held), one.gpus_each, held[0][2])
        key = "/".join((*map(str, parts), one.image)) if followed else ""
        self._keys[workload_id] = key
        return key

    def _begin(self, workload_id: str, week: int) -> ClassUse:
        one, held = self._memory.workloads[workload_id], self._memory.devices[workload_id]
        return ClassUse(
            week=week,
            team=one.team,
            kind=one.kind,
            name=one.stem,
            image=one.image,
            flavor=one.flavor,
            gpus=len(held),
            gpus_each=one.gpus_each,
            milli=held[0][2],
        )

    def _drop_before(self, week: int) -> None:
        """Classes of weeks that are over make room."""
        for key, seen in list(self._memory.classes.items()):
            if seen.week < week:
                if self._changed.pop(key, None) is not None:
                    self._over.append(seen)
                del self._memory.classes[key]
                self._memory.journal.drop(CLASS, key)


def week_of(at_ms: int) -> int:
    """The day (since 1970-01-01, UTC) of the Monday before."""
    day = at_ms // DAY_MS
    return day - (day + 3) % 7


def _wire(seen: ClassUse) -> WorkClassUse:
    return WorkClassUse(
        week=seen.week,
        team=seen.team,
        kind=seen.kind,
        name=seen.name,
        image=seen.image,
        flavor=seen.flavor,
        gpus=seen.gpus,
        gpus_each=seen.gpus_each,
        milli=seen.milli,
        used=seen.used,
        unused=seen.unused,
        unmeasured=seen.unmeasured,
        percents=tuple(sorted(seen.percents)),
        percents_ms=tuple(seen.percents[one] for one in sorted(seen.percents)),
        memory_mib=tuple(sorted(seen.memory)),
        memory_ms=tuple(seen.memory[one] for one in sorted(seen.memory)),
    )
