"""Runs the scenes in order on the local system and ends with what to try next."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterable
from typing import Final

from muster.client import AsyncClient
from operations import configuration
from operations.demo.organisation import documents_of
from operations.demo.site import find_site, operator_of, print_addresses, reported_fleet, team_keys
from operations.demo.story.narrator import Narrator
from operations.demo.story.scenes import SCENES, next_commands
from operations.demo.story.stage import Stage
from operations.demo.story.work import LABEL
from operations.replay.runner import FOLLOWED
from operations.replay.system import apply_documents, wait_until_read
from operations.replay.tracker import Tracker
from operations.topic_tail import TopicTail
from shared.core.model.units import GPU_MILLI
from shared.events.grants import OPERATOR

RUN_BYTES: Final = 2


async def story(pause_seconds: float) -> int:
    """Tell it on the local system; 0 when every scene saw what its caption says.

    Raises:
        SceneFailed: a scene did not.
    """
    async with _stage() as stage:
        for scene in SCENES:
            await scene(stage)
            await asyncio.sleep(pause_seconds)
        print_addresses(stage.site)
        print("\nTry next:")
        for command in await next_commands(stage):
            print(f"  {command}")
        print(f"\nThe story took {stage.narrator.elapsed_seconds:.0f} s.")
    return 0


@contextlib.asynccontextmanager
async def _stage() -> AsyncIterator[Stage]:
    """A fleet that has reported itself, an organisation that every service knows, and keys."""
    addresses, site = configuration.find(role=OPERATOR), find_site()
    narrator = Narrator()
    async with contextlib.AsyncExitStack() as open_things:
        operator = await open_things.enter_async_context(operator_of(site))
        print("Waiting for the fleet to report itself ...", flush=True)
        fleet = await reported_fleet(operator)
        gpus = fleet.total_gpu_milli // GPU_MILLI
        print(f"{gpus:,} GPUs. Applying teams, queues and quotas ...", flush=True)
        await apply_documents(operator, documents_of(fleet))
        keys = await team_keys(operator, site)
        await wait_until_read(addresses.kafka, addresses.prefix, addresses.database)
        teams = {
            team: await open_things.enter_async_context(AsyncClient(operator.address, key))
            for team, key in keys.items()
        }
        await _cancel_last_run(teams.values())
        topics = [topic.name for topic in FOLLOWED]
        tail = await open_things.enter_async_context(
            TopicTail(addresses.kafka, addresses.prefix, topics)
        )
        stage = Stage(
            addresses=addresses,
            site=site,
            run=f"d{secrets.token_hex(RUN_BYTES)}",
            fleet=fleet,
            keys=keys,
            operator=operator,
            teams=teams,
            tracker=Tracker(()),
            narrator=narrator,
        )
        follower = asyncio.create_task(stage.follow(tail))
        try:
            yield stage
        finally:
            follower.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await follower


async def _cancel_last_run(teams: Iterable[AsyncClient]) -> None:
    """What an earlier run left running would fill the fleet of this one."""
    cancelled = sum([await _cancel_all(client) for client in teams])
    if cancelled:
        print(f"Cancelled {cancelled:,} workloads of an earlier run.", flush=True)


async def _cancel_all(client: AsyncClient) -> int:
    """How many workloads of the story were cancelled for this team."""
    selection: dict[str, object] = {"labels": LABEL}
    cancelled = 0
    while True:
        answer = await client.command_all("cancel", selection)
        cancelled += len(answer["ids"])
        if not answer["more"]:
            return cancelled
        selection["after"] = answer["ids"][-1]
