"""Sends items through both front doors: one half of each team's by Kafka, the other by HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import msgspec

from muster.client import AsyncClient
from muster.errors import Rejected
from operations.configuration import Addresses
from operations.demo.load import Item
from operations.replay.submitting import Submission, by_http, by_kafka
from operations.replay.tracker import Tracker
from shared.events.envelope import workload_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is to be sent, under which keys, and what follows it."""

    addresses: Addresses
    gateway: str
    keys: dict[str, str]
    items: Sequence[Item]
    tracker: Tracker


async def submit(work: Load) -> list[str]:
    """Returns when every item is acknowledged: what HTTP refused, as `recipe: field: rule`."""
    refused: list[str] = []
    addresses, tracker = work.addresses, work.tracker
    async with asyncio.TaskGroup() as group:
        for team, key in work.keys.items():
            own = [item for item in work.items if item.team == team]
            kafka = _stream([item.submission for item in own[::2]])
            if own:
                group.create_task(
                    by_kafka(addresses.kafka, addresses.prefix, team, kafka, tracker.submitted)
                )
            if own[1:]:
                group.create_task(_by_http(work.gateway, key, own[1::2], tracker, refused))
    return refused


async def _by_http(
    address: str, key: str, items: Sequence[Item], tracker: Tracker, refused: list[str]
) -> None:
    """The right ones in batches, the wrong ones alone: a batch is taken whole or not at all."""
    async with AsyncClient(address, key) as client:
        await by_http(client, _stream([item.submission for item in items if not item.wrong]))
        for item in items:
            if not item.wrong:
                continue
            try:
                await client.submit(
                    msgspec.to_builtins(item.submission.spec), idempotency_key=item.submission.key
                )
            except Rejected as error:
                identifier = workload_id(item.team, item.submission.key)
                tracker.fates[identifier].rejected = True
                refused.append(f"{item.recipe}: {_first_rule(error)}")


def _first_rule(error: Rejected) -> str:
    first = error.errors[0] if error.errors else None
    return f"{first.field}: {first.rule}" if first else str(error)


async def _stream(submissions: Sequence[Submission]) -> AsyncIterator[Submission]:
    for one in submissions:
        yield one
