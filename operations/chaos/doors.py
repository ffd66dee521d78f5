"""The doors by which faults go in: HTTP to the simulated fleet, node facts for real devices."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from operations.chaos.faults import Call, Strike, calls_of
from operations.chaos.places import Place
from operations.chaos.read_model import real_places
from operations.chaos.told import tell
from operations.configuration import Addresses, NotConfigured, find, local_state
from operations.failures import Failure
from shared.events.grants import OPERATOR

SECONDS_MAX: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """Either may be missing: there is no fleet, or no database and broker are known."""

    fleet_url: str
    addresses: Addresses | None

    async def places(self, names: Collection[str] = ()) -> dict[str, Place]:
        """All simulated nodes by name, and those of `names` that are real.

        Raises:
            Failure: a door does not answer.
        """
        found: dict[str, Place] = {}
        if self.fleet_url:
            answer = await _call(self.fleet_url, "GET", Call("/v1/nodes", {}))
            found = {one["name"]: _simulated(one) for one in answer["nodes"]}
        others = sorted(set(names) - found.keys())
        if others and self.addresses is not None:
            found |= await real_places(self.addresses.database, others)
        return found

    async def strike(self, strike: Strike, place: Place) -> None:
        """Make a fault at a place where it may be made (`places.checked`)."""
        if not place.simulated:
            assert self.addresses is not None, "a real place was read from the database"
            await tell(self.addresses, strike, place)
            return
        for call in calls_of(strike):
            await _call(self.fleet_url, "POST", call)


def doors(fleet_url: str, environment: Mapping[str, str] | None = None) -> Doors:
    """The doors of the option, the environment or the local system.

    Raises:
        NotConfigured: there is neither a fleet nor a database.
    """
    environment = os.environ if environment is None else environment
    local = local_state(environment, Path.cwd()).get("addresses", {}).get("fleet", "")
    url = fleet_url or str(local)
    try:
        addresses = find(role=OPERATOR, environment=environment)
    except NotConfigured:
        addresses = None
    if not url and addresses is None:
        raise NotConfigured(
            "No simulated fleet is known: give --fleet-url, set MUSTER_FLEET_URL, or start a local"
            " system with `make up`."
        )
    return Doors(fleet_url=url, addresses=addresses)


def _simulated(told: Mapping[str, Any]) -> Place:
    return Place(
        name=told["name"],
        gpus=told["gpus"],
        flavor=told.get("flavor", ""),
        ready=told["ready"],
    )


async def _call(url: str, method: str, call: Call) -> dict[str, Any]:
    timeout = aiohttp.ClientTimeout(SECONDS_MAX)
    try:
        async with (
            aiohttp.ClientSession(url, timeout=timeout) as session,
            session.request(method, call.path, params=call.query) as answer,
        ):
            if not answer.ok:
                raise Failure((await answer.text()).strip() or f"{url} answers {answer.status}")
            return dict(await answer.json())
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Failure(f"the fleet at {url} does not answer: {error}") from error
