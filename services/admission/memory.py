"""All that admission knows of one cell, rebuilt from its own tables and written back to them."""

from __future__ import annotations

from collections.abc import Sequence

from services.admission.alive import Alive
from services.admission.known import KnownVerdicts
from services.admission.parking import Parking
from services.admission.rulebook import Rulebook
from services.admission.told_teams import ToldTeams
from shared.core.admission.fleet_shape import FleetShape
from shared.events.envelope import Received, workload_id
from shared.events.topics import WORKLOAD_FACTS, team_of
from shared.ports.reader import Reader
from shared.ports.store import Write


class AdmissionMemory:
    """What it judges by and what it has judged; `now_ms` is the time of the present batch."""

    def __init__(self, fleet: FleetShape) -> None:
        self.known = KnownVerdicts()
        self.parking = Parking()
        self.book = Rulebook(fleet)
        self.alive = Alive()
        self.told = ToldTeams()
        self.ids: dict[str, str] = {}
        """The workload ids of the batch, by the id of the message."""
        self.now_ms = 0

    async def load(self, reader: Reader) -> None:
        """Rebuild from the rows; `self` must be new."""
        await self.book.load(reader)
        await self.known.load(reader)
        await self.parking.load(reader)
        await self.alive.load(reader)
        await self.told.load(reader)

    async def prepare(self, messages: Sequence[Received], reader: Reader) -> None:
        """Derive the ids of the batch, and look up those that memory may have forgotten."""
        asking = (one for one in messages if one.topic != WORKLOAD_FACTS.name)
        self.ids = {one.event.id: identify(one) for one in asking}
        await self.known.look_up({one for one in self.ids.values() if one}, reader)

    def writes(self) -> list[Write]:
        """Rows of what is new since the last call."""
        parts: tuple[Sequence[Write], ...] = (
            self.known.writes(self.now_ms),
            self.parking.writes(),
            self.book.writes(),
            self.alive.writes(),
            self.told.writes(),
        )
        return [write for part in parts for write in part]


def identify(message: Received) -> str:
    """The workload id that a message speaks of; "" for one that speaks of none."""
    event = message.event
    team = team_of(message.topic)
    if team is not None:
        return workload_id(team, event.correlation_id)
    return getattr(event.payload, "workload_id", "")
