"""A receiver of webhooks that misbehaves on command, and the notifications service beside it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.local.processes import free_port
from shared.adapters.kafka import KafkaPublisher
from shared.adapters.kafka.topics import create_topics
from shared.core.model.lifecycle import State
from shared.events.codec import encode_headers, encode_payload
from shared.events.envelope import Event, event_id
from shared.events.organisation import NotificationApplied
from shared.events.registry import NAME_BY_TYPE
from shared.events.topics import ORGANISATION_FACTS, TOPICS, WORKLOAD_FACTS, Topic
from shared.events.workloads import Wire, WorkloadFailed
from shared.ports.kafka_access import KafkaAccess
from shared.ports.store import OutboxRow
from tests.fixtures.servers import Database
from tests.support.agents import samples

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
ANSWERS = {
    "ok": OK,
    "error": b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
    "busy": b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n",
    "redirect": b"HTTP/1.1 307 Moved\r\nLocation: {trap}\r\nContent-Length: 0\r\n\r\n",
    "early": b"",
    "half": b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nthe rest is missi",
}


@dataclass
class Taken:
    """One request as it came."""

    at_seconds: float
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def workload_id(self) -> str:
        return str(json.loads(self.body)["data"].get("workload_id", ""))


@dataclass
class Receiver:
    """Answers each path as `moods` says; "hang" answers nothing, "down" is not listening."""

    port: int = field(default_factory=free_port)
    moods: dict[str, str] = field(default_factory=dict)
    requests: list[Taken] = field(default_factory=list)
    """All that came, whatever was answered."""
    taken: list[Taken] = field(default_factory=list)
    """What was answered with 200."""
    connections: int = 0
    trap: str = ""

    def of(self, path: str) -> list[str]:
        """Workloads of a path in order of their first arrival that was taken."""
        return list(dict.fromkeys(one.workload_id for one in self.taken if one.path == path))

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def stop(self) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while await self._answer(reader, writer):
                pass
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        path = head[0].split(" ")[1]
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        one = Taken(time.time(), path, headers, body)
        self.requests.append(one)
        mood = self.moods.get(path, "ok")
        if mood == "hang":
            await asyncio.sleep(60)
            return False
        if mood == "ok":
            self.taken.append(one)
        writer.write(ANSWERS[mood].replace(b"{trap}", self.trap.encode()))
        await writer.drain()
        return mood not in {"early", "half"}


class Notifications:
    """`python -m services.notifications` on one broker and one database."""

    def __init__(
        self, kafka: str, database: Database, prefix: str, secrets: Path, **more: str
    ) -> None:
        self.kafka, self.database, self.prefix = kafka, database, prefix
        self.port = free_port()
        (secrets / "key").write_text(KEY + "\n")
        self._environment = os.environ | {
            "MUSTER_KAFKA_BOOTSTRAP": kafka,
            "MUSTER_DATABASE_URL": database.url("notifications"),
            "MUSTER_TOPIC_PREFIX": prefix,
            "MUSTER_HTTP_PORT": str(self.port),
            "MUSTER_NOTIFICATION_NETWORKS": "127.0.0.0/8",
            "MUSTER_NOTIFICATION_SECRETS": str(secrets),
            "MUSTER_NOTIFICATION_TIMEOUT_SECONDS": "1",
            "MUSTER_NOTIFICATION_FIRST_RETRY_SECONDS": "0.1",
            "MUSTER_NOTIFICATION_LAST_RETRY_SECONDS": "0.5",
            "MUSTER_LEASE_SECONDS": "2",
            **more,
        }
        self._publisher = KafkaPublisher(KafkaAccess(bootstrap=kafka), prefix)
        self._process: subprocess.Popen[bytes] | None = None
        self._told = 0

    async def prepare(self) -> None:
        await create_topics(KafkaAccess(bootstrap=self.kafka), self.prefix, TOPICS)

    def start(self) -> None:
        command = [sys.executable, "-m", "services.notifications"]
        self._process = subprocess.Popen(command, env=self._environment, stdout=subprocess.DEVNULL)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=20)
            self._process = None

    async def close(self) -> None:
        await asyncio.to_thread(self.end, signal.SIGKILL)
        await self._publisher.close()

    async def apply(self, name: str, url: str, version: int = 1, **more: Any) -> None:
        values = {"secret": "key"} | more
        document = NotificationApplied(name=name, version=version, url=url, **values)
        await self.tell(ORGANISATION_FACTS, document, subject=name)

    async def fail(self, *workload_ids: str, team: str = "vision") -> None:
        """Facts of workloads that failed, in this order."""
        rows = [self._row(WORKLOAD_FACTS, failed(one, team), one) for one in workload_ids]
        await self._publisher.publish(rows)

    async def tell(self, topic: Topic, payload: Wire, subject: str) -> None:
        await self._publisher.publish([self._row(topic, payload, subject)])

    def _row(self, topic: Topic, payload: Wire, subject: str) -> OutboxRow:
        self._told += 1
        now_ms = time.time_ns() // 1_000_000
        event = Event(
            id=event_id(now_ms, f"cause-{self._told}", "test", 0),
            type=NAME_BY_TYPE[type(payload)],
            source="test",
            subject=subject,
            time_ms=now_ms,
            key=subject,
            payload=payload,
            sequence=self._told,
        )
        return OutboxRow(
            seq=self._told,
            event_id=event.id,
            topic=topic.name,
            partition=0,
            key=subject,
            headers=encode_headers(event),
            value=encode_payload(payload),
        )

    def waiting(self) -> int:
        return int(self.database.execute("SELECT count(*) FROM notifications.delivery"))

    def destinations(self) -> int:
        return int(self.database.execute("SELECT count(*) FROM notifications.destination"))

    def metric(self, *beginnings: str) -> dict[str, float]:
        return samples(self.port, *beginnings)


def failed(workload_id: str, team: str = "vision", message: str = "") -> WorkloadFailed:
    """A workload that failed."""
    return WorkloadFailed(
        workload_id=workload_id,
        team=team,
        queue=f"{team}-queue",
        version=5,
        state=State.FAILED,
        attempt=1,
        priority=100,
        exit_code=3,
        message=message,
    )


async def until(holds: Any, what: str, seconds: float = 30.0) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.05)
