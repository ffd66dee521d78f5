"""Replays recorded decisions: same inputs in the same units, compared byte by byte (mission X4).

`python -m services.placement.offline.replay --database URL --kafka BOOTSTRAP` reads the order of
inputs from placement's inbox (unit, ordinal), their content from the Kafka log, runs the handler
anew from nothing, and compares what it emits with the outbox rows. Deadlines are spelled out in
the inbox. Holds for a history that one process wrote without a restart: a restart forgets which
request classes rest, and may tell a reason again. Exit code 0 when all bytes agree, 1 when they
differ, 2 when it cannot be said.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, NoReturn

from pydantic import ValidationError

from services.placement.handlers import PlacementHandler
from shared.adapters.kafka import KafkaSubscription
from shared.adapters.postgres.pool import Database
from shared.events.codec import decode, encode_payload
from shared.events.deadlines import deadline_message
from shared.events.envelope import Received, time_of_id
from shared.events.topics import AUDIT_FACTS
from shared.ports.errors import MusterError
from shared.ports.kafka_access import KafkaAccess, KafkaSettings, problems

IDLE_SECONDS: Final = 2.0
CANNOT: Final = 2
Place = tuple[str, int, int]
Rows = Sequence[Mapping[str, Any]]


class InputsMissing(Exception):  # noqa: N818  # says what happened
    """The log does not reach back to the first input any more."""


async def replay(
    url: str, access: KafkaAccess, prefix: str, *, cell: int, seed: int
) -> dict[str, int]:
    """Counts of units, inputs, emitted events and events that differ."""
    inbox, outbox = await _recorded(url, f"cell-{cell}")
    log = await _read_log(access, prefix, inbox)
    emitted = _run(PlacementHandler(cell=cell, seed=seed), inbox, log)
    recorded = [bytes(row["value"]) for row in outbox]
    different = sum(a != b for a, b in itertools.zip_longest(emitted, recorded))
    return {
        "units": len({row["unit"] for row in inbox}),
        "inputs": len(inbox),
        "recorded": len(recorded),
        "replayed": len(emitted),
        "different": different,
    }


async def _recorded(url: str, shard: str) -> tuple[Rows, Rows]:
    """Inputs and outputs of the same moment: a unit that is committed in between has both."""
    database = Database(url, name="muster-replay")
    try:
        async with (
            database.connection() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            inbox = await connection.fetch(
                "SELECT event_id::text, unit, topic, partition, log_offset, at_ms, epoch"
                " FROM placement.inbox WHERE shard = $1 ORDER BY unit, ordinal",
                shard,
            )
            outbox = await connection.fetch(
                "SELECT value FROM placement.outbox WHERE shard = $1"
                " AND topic NOT LIKE '%.dlq' AND topic <> $2 ORDER BY seq",
                shard,
                AUDIT_FACTS["placement"].name,  # seals are of the session, by the time that passes
            )
            return inbox, outbox
    finally:
        await database.close()


def _run(
    handler: PlacementHandler, inbox: Sequence[Mapping[str, Any]], log: Mapping[Place, Received]
) -> list[bytes]:
    emitted: list[bytes] = []
    for _, group in itertools.groupby(inbox, key=lambda row: row["unit"]):
        rows = list(group)
        handler.state.epoch = rows[0]["epoch"]
        messages = [_message(row, log) for row in rows]
        outcome = handler.decide(messages, rows[0]["at_ms"])
        emitted.extend(encode_payload(emit.payload) for emit in outcome.emits)
    return emitted


def _message(row: Mapping[str, Any], log: Mapping[Place, Received]) -> Received:
    if row["log_offset"] >= 0:
        return log[row["topic"], row["partition"], row["log_offset"]]
    _, kind, subject, version = row["topic"].split("/")
    return deadline_message(kind, subject, int(version), time_of_id(row["event_id"]))


async def _read_log(
    access: KafkaAccess, prefix: str, inbox: Sequence[Mapping[str, Any]]
) -> dict[Place, Received]:
    """The records that the inbox names, decoded."""
    wanted = {
        (row["topic"], row["partition"], row["log_offset"])
        for row in inbox
        if row["log_offset"] >= 0
    }
    subscription = KafkaSubscription(access, prefix)
    try:
        found = await _found(subscription, wanted)
    finally:
        await subscription.close()
    missing = len(wanted) - len(found)
    if missing:
        raise InputsMissing(f"{missing} inputs are no longer in the log (retention)")
    return found


async def _found(
    subscription: KafkaSubscription, wanted: AbstractSet[Place]
) -> dict[Place, Received]:
    await subscription.assign({(topic, partition): None for topic, partition, _ in wanted})
    found: dict[Place, Received] = {}
    while len(found) < len(wanted):
        messages = await subscription.poll(5_000, IDLE_SECONDS)
        if not messages:
            break
        for one in messages:
            place = (one.topic, one.partition, one.offset)
            if place in wanted:
                found[place] = decode(*place, one.headers, one.value)
    return found


def main() -> None:
    """Parse options, replay, print the counts as JSON."""
    given = _options()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what fails is told once, below
    try:
        access = KafkaSettings(kafka_bootstrap=given.kafka).kafka
        counts = asyncio.run(
            replay(given.database, access, given.prefix, cell=given.cell, seed=given.seed)
        )
    except ValidationError as error:
        _end(f"settings of Kafka: {problems(error)} (MUSTER_KAFKA_*, docs/settings.md)")
    except (MusterError, InputsMissing, OSError, ValueError) as error:
        _end(f"{error}; --database and --kafka are those of a system that runs")
    print(json.dumps(counts))  # noqa: T201  # the result of a command
    sys.exit(1 if counts["different"] else 0)


def _end(text: str) -> NoReturn:
    print(f"error: {text}", file=sys.stderr)  # noqa: T201  # what a person reads
    sys.exit(CANNOT)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", required=True, help="PostgreSQL URL, read-only is enough")
    parser.add_argument(
        "--kafka",
        required=True,
        help="host:port of a broker; MUSTER_KAFKA_USER and the like say as whom",
    )
    parser.add_argument("--prefix", default="muster", help="first part of the topic names")
    parser.add_argument("--cell", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0, help="MUSTER_SEED of the service")
    return parser.parse_args()


if __name__ == "__main__":
    main()
