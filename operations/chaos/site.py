"""The running system as a Friday sees it: the simulated fleet, and work by the read model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from operations.chaos.cost import Work
from operations.chaos.doors import Doors, doors
from operations.chaos.faults import Strike
from operations.chaos.places import Place
from operations.chaos.read_model import work_of, work_that_holds
from operations.configuration import NotConfigured
from operations.failures import Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSite:
    """It is `friday_run.Site`."""

    doors: Doors
    database: str

    async def places(self) -> dict[str, Place]:
        """All simulated nodes."""
        return await self.doors.places()

    async def holding(self) -> list[Work]:
        """All work that holds devices."""
        return await work_that_holds(self.database)

    async def work_of(self, ids: Sequence[str]) -> dict[str, Work]:
        """Some work as it is now."""
        return await work_of(self.database, ids)

    async def strike(self, strike: Strike, place: Place) -> None:
        """Make a fault."""
        await self.doors.strike(strike, place)


def site(fleet_url: str) -> RunningSite:
    """The system of the option, the environment or the local one.

    Raises:
        Failure: it has no simulated fleet: a real node is not taken down from here.
        NotConfigured: its database is not known.
    """
    way = doors(fleet_url)
    if not way.fleet_url:
        raise Failure(
            "the nodes are real, and no machine is taken down from here: `muster admin drain NODE`"
            " moves the work of a node, or give --fleet-url of a simulated fleet"
        )
    if way.addresses is None:
        raise NotConfigured(
            "The database is not known: set MUSTER_DATABASE_URL and MUSTER_KAFKA_BOOTSTRAP, or"
            " start a local system with `make up`."
        )
    return RunningSite(doors=way, database=way.addresses.database)
