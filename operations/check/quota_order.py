"""In which units of work placement took up quota, and made its placements: the order of both.

They travel on different topics, and clocks step. But placement notes each event that it has read
in its inbox, with the unit of work, and a fact names the event that caused it. So each fact has a
first and a last unit in which it can have been made: its own where that is noted, else those of
its neighbours in the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from operations.check.limits import UNLIMITED, Change
from operations.check.model import Evidence, Record

UNITS_SQL: Final = (
    "SELECT event_id::text AS event_id, unit FROM placement.inbox WHERE topic = 'quota.facts.v1'"
)
CHANGED: Final = "muster.quota.changed.v1"
FACTS: Final = "workload.facts.v1"
TOPIC: Final = "quota.facts.v1"


def units_of(evidence: Evidence) -> dict[str, int]:
    """Unit of work by the id of the event that placement read in it."""
    return {row["event_id"]: row["unit"] for row in evidence.rows["quota_units"]}


def changes_of(evidence: Evidence, units: Mapping[str, int], partition: int) -> list[Change]:
    """Documents of one cell with their units; without those that placement has yet to read."""
    read = max(
        (
            row["next_offset"]
            for row in evidence.rows["consumer_offset"]
            if (row["schema"], row["topic"], row["partition"]) == ("placement", TOPIC, partition)
        ),
        default=0,
    )
    return [
        (one.payload, units.get(one.id, 0))  # 0: before all that the inbox still has
        for one in evidence.log.of(CHANGED)
        if one.partition == partition and (one.id in units or one.offset < read)
    ]


def known_from(evidence: Evidence, changes: Sequence[Change]) -> int | None:
    """The unit from which on the log tells all documents; None: it never does."""
    if evidence.log.whole(TOPIC):
        return 0
    first: dict[str, int] = {}
    for document, unit in changes:
        first.setdefault(document["name"], unit)
    names = {row["name"] for row in evidence.rows["quota_nodes"]}
    return max(first.values(), default=0) if names <= first.keys() else None


def bounds_of(facts: Sequence[Record], units: Mapping[str, int]) -> list[tuple[int, int]]:
    """First and last unit in which each of these facts, in the order of the log, was made."""
    noted = [units.get(one.causation_id) for one in facts]
    firsts, lasts = [], []
    unit = 0
    for own in noted:
        unit = own if own is not None else unit
        firsts.append(unit)
    unit = UNLIMITED - 1
    for own in reversed(noted):
        unit = own if own is not None else unit
        lasts.append(unit)
    return list(zip(firsts, reversed(lasts), strict=True))
