"""The echo services as processes on a real broker and a real database, and what became of it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter

from aiokafka import AIOKafkaConsumer, TopicPartition

from shared.adapters.kafka import KafkaPublisher
from shared.events.topics import QUOTA_FACTS, SUBMISSION_COMMANDS
from shared.events.workloads import CancelWorkload
from shared.ports.kafka_access import KafkaAccess
from shared.ports.store import OutboxRow
from tests.fixtures.servers import Database
from tests.support.work import record

MESSAGES = 2_000


class Chain:
    """The two echo processes on one broker and one database."""

    def __init__(self, kafka: str, database: Database, prefix: str) -> None:
        self.kafka, self.database, self.prefix = kafka, database, prefix
        self.processes: list[subprocess.Popen] = []

    def start(
        self,
        name: str,
        *switches: str,
        slot: str = "a",
        lease: float = 5.0,
        failpoints: str = "",
        stderr: int | None = None,
        stdout: int = subprocess.DEVNULL,
        http_port: int = 0,
    ) -> subprocess.Popen:
        environment = os.environ | {
            "MUSTER_KAFKA_BOOTSTRAP": self.kafka,
            "MUSTER_DATABASE_URL": self.database.url(name),
            "MUSTER_TOPIC_PREFIX": self.prefix,
            "MUSTER_SLOT": f"{name}-{slot}",
            "MUSTER_LEASE_SECONDS": str(lease),
            "MUSTER_FAILPOINTS": failpoints,
            "MUSTER_BATCH_MESSAGES_MAX": "50",
            "MUSTER_SEED": str(len(self.processes)),
            "MUSTER_HTTP_PORT": str(http_port),
        }
        command = [sys.executable, "-m", "tests.support.echo", name, *switches]
        process = subprocess.Popen(
            command, env=environment, stdout=stdout, stderr=stderr, text=True
        )
        self.processes.append(process)
        return process

    def stop(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    async def feed(self, first: int = 0, count: int = MESSAGES) -> None:
        publisher = KafkaPublisher(KafkaAccess(bootstrap=self.kafka), self.prefix)
        await publisher.publish([_command(number) for number in range(first, first + count)])
        await publisher.close()

    async def outcome(self) -> Counter[str]:
        """Subjects that came out, by how many distinct facts speak of each."""
        consumer = AIOKafkaConsumer(bootstrap_servers=self.kafka, enable_auto_commit=False)
        await consumer.start()
        place = TopicPartition(QUOTA_FACTS.on_broker(self.prefix), 0)
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        end = (await consumer.end_offsets([place]))[place]
        ids: dict[bytes, str] = {}
        while await consumer.position(place) < end:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                ids |= {dict(one.headers)["ce_id"]: one.key.decode() for one in records}
        await consumer.stop()
        return Counter(ids.values())

    def effects(self, schema: str = "quota") -> Counter[str]:
        return Counter(self.database.execute(f"SELECT subject FROM {schema}.audit").split())

    def late_writes(self) -> int:
        """Inbox rows that an epoch wrote after the next epoch had begun (I9)."""
        return int(
            self.database.execute(
                "SELECT count(*) FROM admission.inbox i JOIN admission.lease_history h"
                " ON h.shard = i.shard AND h.epoch = i.epoch + 1 AND i.unit >= h.next_unit"
            )
        )

    def epoch(self) -> int:
        """The newest epoch of admission's lease; 0 before the first holder."""
        found = self.database.execute(
            "SELECT coalesce(max(epoch), 0) FROM admission.lease_history"
        )
        return int(found)

    async def epoch_after(self, epoch: int, seconds: float = 30) -> None:
        """Wait until another holder has taken admission's lease."""
        async with asyncio.timeout(seconds):
            while self.epoch() <= epoch:
                await asyncio.sleep(0.1)

    async def settled(self, wanted: int = MESSAGES, seconds: float = 40) -> None:
        """Wait until `wanted` subjects came through, or nothing moves any more."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and len(self.effects()) < wanted:
            await asyncio.sleep(0.25)
        await asyncio.sleep(1.5)

    async def verdict(self, wanted: int = MESSAGES) -> str:
        """Says "ok", or what is lost or doubled, by effect in the database and in the log."""
        names = [f"w{number}" for number in range(wanted)]
        counts = [self.effects("admission"), self.effects(), await self.outcome()]
        lost = [name for name in names if any(count[name] == 0 for count in counts)]
        doubled = [name for name in names if any(count[name] > 1 for count in counts)]
        return "ok" if not lost and not doubled else f"lost {len(lost)} doubled {len(doubled)}"


def _command(number: int) -> OutboxRow:
    subject = f"w{number}"
    payload = CancelWorkload(workload_id=subject, team="echo")
    at_ms = 1_700_000_000_000 + number
    return record(payload, SUBMISSION_COMMANDS, subject, f"test-{number}", at_ms, number)
