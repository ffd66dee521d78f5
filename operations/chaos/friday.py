"""Takes one node down in the hours that a document allows: which one, and whether now.

Nodes with work come first, as what they show is what is wanted, as long as no more of the
document's nodes are down than it allows; else one on which nothing runs is taken.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from random import Random
from zoneinfo import ZoneInfo

from operations.chaos.cost import Work
from operations.chaos.document import Fields
from operations.chaos.hours import DAYS, WorkingHours, minute_of
from operations.chaos.places import Place
from operations.failures import Failure
from shared.core.admission.errors import Errors

WORKING_NODES_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FridayRules:
    """What a document allows."""

    hours: WorkingHours
    flavors: frozenset[str]
    """Nodes of these; empty: of all."""
    nodes: frozenset[str]
    """These nodes alone; empty: all."""
    working_nodes_max: int
    """So many of the nodes may be down at once if the next one has work; 0: none that has."""

    def day_of(self, now_ms: int) -> str:
        """The day in the zone of the document: each has its node."""
        return datetime.fromtimestamp(now_ms / 1000, tz=self.hours.zone).date().isoformat()

    def covers(self, place: Place) -> bool:
        """Whether the node may be hit at all."""
        return (not self.flavors or place.flavor in self.flavors) and (
            not self.nodes or place.name in self.nodes
        )


def rules_of(value: object, errors: Errors) -> FridayRules | None:
    """The rules of a document; None where `errors` tell what is wrong."""
    fields = Fields(value, "", errors)
    zone = _zone(fields)
    days = fields.texts("days", DAYS)
    if not days and not errors:
        fields.wrong("days", "", f"must name one of {', '.join(DAYS)} at least")
    begin, end = (_minute(fields, name) for name in ("from", "to"))
    if not errors and begin >= end:
        fields.wrong("to", fields.raw("to"), "must be later than from")
    flavors, nodes = fields.texts("flavors"), fields.texts("nodes")
    if not errors and not flavors and not nodes:
        fields.wrong("flavors", "", "must name one at least, or nodes must")
    most = fields.integer("working_nodes_max", 0, WORKING_NODES_MAX, 1)
    fields.end()
    if errors or zone is None:
        return None
    hours = WorkingHours(
        zone=zone,
        days=frozenset(DAYS.index(day) for day in days),
        from_minute=begin,
        to_minute=end,
    )
    return FridayRules(
        hours=hours,
        flavors=frozenset(flavors),
        nodes=frozenset(nodes),
        working_nodes_max=most,
    )


def _zone(fields: Fields) -> ZoneInfo | None:
    name = fields.text("time_zone")
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError):
        fields.wrong("time_zone", name, "must be a time zone such as Europe/Berlin or UTC")
        return None


def _minute(fields: Fields, name: str) -> int:
    value = fields.raw(name)
    minute = minute_of(value)
    if minute is None:
        fields.wrong(name, "" if value is None else value, 'must be a time such as "10:30"')
    return minute or 0


def check_hours(rules: FridayRules, at: datetime) -> None:
    """Return if a node may be taken down at a time.

    Raises:
        Failure: it is outside the hours; the text says when they begin.
    """
    if not rules.hours.is_open(at):
        begins = rules.hours.next_open(at)
        raise Failure(
            f"it is {said(at, rules)}, outside the hours of the document; the next allowed time is"
            f" {said(begins, rules)}"
        )


def said(at: datetime, rules: FridayRules) -> str:
    """A time in the zone of the document."""
    local = at.astimezone(rules.hours.zone)
    return f"{DAYS[local.weekday()].capitalize()} {local:%Y-%m-%d %H:%M} ({rules.hours.zone.key})"


def chosen(
    rules: FridayRules, places: Iterable[Place], work: Collection[Work], seed: str
) -> Place:
    """The node to take down; the same for the same seed.

    Raises:
        Failure: there is none; one sentence with the next step.
    """
    covered = sorted(
        (one for one in places if one.simulated and rules.covers(one)), key=lambda one: one.name
    )
    up = [one for one in covered if one.ready]
    if not up:
        raise Failure(
            "no simulated node that is up is covered by the document; name its flavors or nodes as"
            " `muster nodes` shows them"
        )
    busy = frozenset().union(*(one.nodes for one in work))
    down = [one.name for one in covered if not one.ready]
    may = len(down) < rules.working_nodes_max
    working = [one for one in up if one.name in busy]
    fit = (working if may and working else None) or [one for one in up if one.name not in busy]
    if not fit:
        raise Failure(
            f"every node that is up has work, {len(down)} of the document's nodes are down and"
            f" working_nodes_max is {rules.working_nodes_max}; raise it, or bring nodes back with"
            " `muster-ops chaos up --node NODE`"
        )
    return Random(seed).choice(fit)
