"""A courier skips nothing, gives up what is too old, and can be hurried."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog

from services.notifications.courier import Courier, DeliveryPace
from services.notifications.notices import Notice
from services.notifications.records import EXPIRED, Destination
from services.notifications.reports import DeliveryReported
from services.notifications.secrets import SecretFiles
from shared.core.notifications.events import NoticeKind, Severity
from shared.events.organisation import NotificationApplied
from shared.ports.webhooks import WebhookAnswer

NOW_MS = 1_764_000_000_000


class Rows:
    """The queue of one destination; `meanwhile` is called while it is read."""

    def __init__(self) -> None:
        self.created: dict[int, int] = {}
        self.meanwhile = lambda: None

    async def fetch(self, sql: str, *arguments: Any) -> Sequence[Mapping[str, Any]]:
        _, first, end, *_ = arguments
        if sql == EXPIRED:
            end, before_ms = arguments[1:]
            old = [n for n, at_ms in self.created.items() if n < end and at_ms < before_ms]
            return [{"through": max(old, default=-1)}]
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        await asyncio.sleep(0)
        return [
            {"number": n, "body": _body(n), "created_at_ms": at_ms}
            for n, at_ms in sorted(self.created.items())
            if first <= n < end
        ]


def _body(number: int) -> str:
    notice = Notice(
        id=f"id-{number}",
        kind=NoticeKind.FAILED,
        severity=Severity.WARNING,
        team="vision",
        at_ms=NOW_MS,
        text=f"number {number}",
    )
    return msgspec.json.encode(notice).decode()


class Sent:
    """Takes what `answers` say, in order; then all."""

    def __init__(self) -> None:
        self.answers: list[WebhookAnswer] = []
        self.taken: list[str] = []

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> WebhookAnswer:
        del url, headers
        answer = self.answers.pop(0) if self.answers else WebhookAnswer(status=200)
        if not answer.problem:
            self.taken.append(msgspec.json.decode(body)["text"].partition("number ")[2][:1])
        return answer

    async def close(self) -> None:
        """Nothing is open."""


class Stopped:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_seconds(self) -> float:
        return 0.0


class World:
    def __init__(self) -> None:
        self.rows, self.sent = Rows(), Sent()
        self.reports: list[DeliveryReported] = []
        self.slept: list[float] = []
        document = NotificationApplied(name="chat", version=1, format="slack", url="https://x.org")
        self.courier = Courier(
            Destination(document=document),
            webhooks=self.sent,
            secrets=SecretFiles(str(Path("/nowhere"))),
            reader=self.rows,
            clock=Stopped(),
            pace=DeliveryPace(sleep=self._sleep),
            report=self.reports.append,
            log=structlog.get_logger(),
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def release(self, *numbers: int, at_ms: int = NOW_MS) -> None:
        self.rows.created |= dict.fromkeys(numbers, at_ms)
        self.courier.release(max(numbers) + 1)

    async def turn(self) -> None:
        for _ in range(60):
            await asyncio.sleep(0)


@pytest.fixture
async def world():
    one = World()
    yield one
    await one.courier.stop()


async def test_what_is_released_while_it_reads_is_not_skipped(world: World) -> None:
    world.rows.meanwhile = lambda: world.release(1, 2)
    world.courier.start()
    await world.turn()
    world.release(3)
    await world.turn()
    assert ["1", "2", "3"] == world.sent.taken


async def test_a_failure_is_tried_again_before_the_next_with_a_growing_pause(world: World) -> None:
    world.sent.answers = [
        WebhookAnswer(problem="answered 500"),
        WebhookAnswer(problem="answered 429", wait_seconds=60),
        WebhookAnswer(problem="answered 500"),
    ]
    world.release(1, 2)
    world.courier.start()
    await world.turn()
    assert ["1", "2"] == world.sent.taken
    assert [1.0, 60, 4.0] == world.slept
    assert [NOW_MS] * 3 + [0, 0] == [one.failing_since_ms for one in world.reports]


async def test_what_is_older_than_a_day_is_given_up_after_a_failure(world: World) -> None:
    world.sent.answers = [WebhookAnswer(problem="answered 500")]
    world.release(1, 2, at_ms=NOW_MS - 86_400_001)
    world.release(3)
    world.courier.start()
    await world.turn()
    assert ["3"] == world.sent.taken
    assert [0, 2, 0] == [one.given_up for one in world.reports]
