"""What both demos need of the local system: its addresses, its fleet, a key for each team."""

from __future__ import annotations

import asyncio
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from muster.client import AsyncClient
from muster.errors import NotAuthorised
from operations import configuration
from operations.demo.organisation import SHARES_PERCENT
from operations.replay.fleet import Fleet

KEYS_FILE: Final = "demo-keys.json"
FLEET_SECONDS_MAX: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A running local system: its folder and its `state.json`."""

    folder: Path
    state: dict[str, Any]


def find_site() -> Site:
    """The local system near by.

    Raises:
        NotConfigured: none is up.
    """
    state = configuration.local_state(os.environ, Path.cwd())
    if not state.get("gateway"):
        raise configuration.NotConfigured("Nothing is up; start it with `make up`.")
    return Site(folder=Path(state["admin_key_file"]).parent, state=state)


def operator_of(site: Site) -> AsyncClient:
    """A client with the key of the operator."""
    return AsyncClient(
        site.state["gateway"], Path(site.state["admin_key_file"]).read_text().strip()
    )


async def reported_fleet(client: AsyncClient) -> Fleet:
    """The nodes once their number stays the same.

    Raises:
        TimeoutError: none is reported within `FLEET_SECONDS_MAX`.
    """
    deadline, before = time.monotonic() + FLEET_SECONDS_MAX, -1
    while True:
        nodes = await client.listing("nodes", limit="1000")
        if nodes and len(nodes) == before:
            return Fleet.of(nodes)
        if time.monotonic() > deadline:
            raise TimeoutError("the fleet does not report itself; see `make logs s=fleet`")
        before = len(nodes)
        await asyncio.sleep(0.5)


async def team_keys(operator: AsyncClient, site: Site) -> dict[str, str]:
    """A member's key for each team; made once and kept."""
    path = site.folder / KEYS_FILE
    keys: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    for team in SHARES_PERCENT:
        if team not in keys or not await _works(operator.address, keys[team]):
            keys[team] = (await operator.create_key(team, "member", "demo"))["key"]
    path.touch(mode=0o600)
    path.write_text(json.dumps(keys, indent=2) + "\n")
    return keys


async def _works(address: str, key: str) -> bool:
    async with AsyncClient(address, key or "none") as client:
        try:
            await client.listing("queues")
        except NotAuthorised:
            return False
        return True


def print_addresses(site: Site) -> None:
    """Where the system is reached, without a password."""
    gateway = site.state["gateway"]
    print("\nThe system stays up (make down stops it):")
    print(f"  API         {gateway}   (openapi: {gateway}/openapi.json)")
    print(f"  Kafka       {site.state['kafka']}")
    print(f"  PostgreSQL  {without_password(site.state['database'])}")


def without_password(url: str) -> str:
    """The same URL with `***` for its password, if it has one."""
    parts = urlsplit(url)
    if not parts.password:
        return url
    name, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{name.partition(':')[0]}:***@{host}"))
