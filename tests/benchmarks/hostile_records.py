"""What one team's worst records cost the others: p99 from submission to placed, and memory.

A good team submits at a steady rate. A hostile team, with the login that the API gave it, writes
ten records of 300 MB of zeros, by gzip and by zstd, and up to 600 records of 1.4 MB of noise, as
fast as the broker's quota of a team lets it, until its time is over. Times are the broker's.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError

from operations.replay.submitting import Submission, paced
from shared.adapters.kafka.client import options as client_options
from shared.events.envelope import workload_id
from shared.events.grants import READER
from tests.benchmarks.admission import FOLLOWED, Fate, read_fates
from tests.benchmarks.options import machine
from tests.support.costs import memory_mib
from tests.support.kafka_access import team_access
from tests.support.system import TEAM, Stage, launch, now_ms
from tests.support.work import fleet, submission_row, submissions

BOMBS: Final = 10
BOMB_BYTES: Final = 300_000_000
JUNK: Final = 600
JUNK_BYTES: Final = 1_400_000
REQUEST_BYTES_MAX: Final = 1 << 21
LAST_SECONDS: Final = 60
LOOK_SECONDS: Final = 0.1
Attack = Callable[[], Coroutine[Any, Any, int]]
"""Sends what it has, and says how many records the broker took."""


async def bombs(producer: AIOKafkaProducer, topic: str) -> Attack:
    """Records that unpack to 300 MB; they are packed before a clock runs."""
    batches = [producer.create_batch() for _ in range(BOMBS)]
    for batch in batches:
        batch.append(key=b"bomb", value=bytes(BOMB_BYTES), timestamp=None)
        await asyncio.to_thread(batch._build)  # close() leaves the packing to send

    async def send() -> int:
        sent = [await producer.send_batch(batch, topic, partition=0) for batch in batches]
        return await _taken(sent)

    return send


async def junk(producer: AIOKafkaProducer, topic: str) -> Attack:
    """Records of noise, which no codec makes smaller; each is one batch."""
    noise = os.urandom(JUNK_BYTES)

    async def send() -> int:
        sent: list[Awaitable[Any]] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                while len(sent) < JUNK:
                    sent.append(await producer.send(topic, noise, key=b"junk", partition=0))
        return await _taken(sent)

    return send


async def _taken(sent: Sequence[Awaitable[Any]]) -> int:
    told = await asyncio.gather(*sent, return_exceptions=True)
    return sum(not isinstance(one, KafkaError) for one in told)


ATTACKS: Final[Mapping[str, tuple[str | None, Callable[..., Awaitable[Attack]]]]] = {
    "gzip": ("gzip", bombs),
    "zstd": ("zstd", bombs),
    "junk": (None, junk),
}
"""Codec and records, by name."""


class Hostile:
    """The team's login, and its producers."""

    def __init__(self, stage: Stage, user: dict[str, Any]) -> None:
        self._access = team_access(stage.system.kafka, user)
        self._topic = user["submissions_topic"]

    @contextlib.asynccontextmanager
    async def ready(self, name: str) -> AsyncIterator[Attack]:
        """An attack of this name, ready to be sent."""
        codec, made = ATTACKS[name]
        async with AIOKafkaProducer(
            **client_options(self._access),
            compression_type=codec,
            max_batch_size=1 << 29 if codec else REQUEST_BYTES_MAX,  # bombs are counted unpacked
            max_request_size=REQUEST_BYTES_MAX,
            request_timeout_ms=120_000,
        ) as producer:
            yield await made(producer, self._topic)


async def submitted(stage: Stage, phase: str, rate: int, seconds: int) -> dict[str, Fate]:
    """The good team's submissions, each at its time."""
    fates: dict[str, Fate] = {}
    specs = submissions(rate * seconds, seed=1, run_seconds=1, gangs=0)
    waiting = [Submission(key=f"{phase}-{number}", spec=spec) for number, spec in enumerate(specs)]
    async for one in paced(waiting, rate):
        fate = Fate(phase, created_ms=now_ms())
        fates[workload_id(TEAM, one.key)] = fate
        await stage.publish([submission_row(0, one.spec, TEAM, one.key, fate.created_ms)])
    return fates


async def most_memory(stage: Stage, found: list[int]) -> None:
    """Resident MiB of admission, again and again until cancelled."""
    while True:
        pid = stage.system.pid("admission")
        found.append(memory_mib(pid) if pid else 0)
        await asyncio.sleep(LOOK_SECONDS)


async def phase(
    stage: Stage, name: str, options: argparse.Namespace, attack: Attack | None
) -> Any:
    """The figures of the good team's work while an attack runs."""
    memory: list[int] = []
    looking = asyncio.create_task(most_memory(stage, memory))
    pid = stage.system.pid("admission")
    async with AIOKafkaConsumer(**client_options(stage.system.kafka.access(READER))) as consumer:
        consumer.assign(FOLLOWED)
        begin = await consumer.end_offsets(FOLLOWED)
        attacking = asyncio.create_task(attack()) if attack else None
        fates = await submitted(stage, name, options.rate, options.seconds)
        taken = await attacking if attacking else 0
        async with asyncio.timeout(LAST_SECONDS):
            while not all(one.placed_ms for one in fates.values()):
                await read_fates(consumer, begin, fates)
    looking.cancel()
    waits = sorted(one.placed_ms - one.created_ms for one in fates.values())
    return {
        "hostile_records": taken,
        "workloads": len(waits),
        "p50_ms": waits[len(waits) // 2],
        "p99_ms": waits[len(waits) * 99 // 100],
        "longest_ms": waits[-1],
        "admission_mib_max": max(memory),
        "admission_died": pid != stage.system.pid("admission"),
    }


async def measured(stage: Stage, options: argparse.Namespace) -> dict[str, Any]:
    """Quiet, then each attack."""
    await stage.connect()
    await stage.organise()
    async with stage.api.patch("/v1/teams/red", json={}) as reply:
        hostile = Hostile(stage, (await reply.json())["kafka_user"])
    await stage.nodes(list(fleet(200)))
    await phase(stage, "warm", options, None)
    found = {"quiet": await phase(stage, "quiet", options, None)}
    for name in ATTACKS:
        async with hostile.ready(name) as attack:
            found[name] = await phase(stage, name, options, attack)
            print(name, json.dumps(found[name]), flush=True)
    await stage.disconnect()
    return found


def main() -> None:
    """On a system of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=20, help="good submissions a second")
    parser.add_argument("--seconds", type=int, default=20, help="of each phase")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muster-bench-", dir="/var/tmp") as name:
        system = launch(Path(name) / "system", leave_out=("fleet", "monitoring"))
        try:
            found = asyncio.run(measured(Stage(system), options))
        finally:
            system.discard()
    print(json.dumps(found | machine()))


if __name__ == "__main__":
    main()
