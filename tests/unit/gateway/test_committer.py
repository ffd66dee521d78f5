"""Group commit: what is grouped, what stands alone, and what a failure does to whom."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
import structlog

from services.gateway.app import committer as committer_module
from services.gateway.app.committer import Committer, Order, QueueFull
from services.gateway.app.submission_rows import ValidSubmission
from shared.core.model.nouns import WorkloadKind, WorkloadSpec
from shared.events.fingerprint import body_hash
from shared.ports.errors import (
    DatabaseOlder,
    LeaseLost,
    MusterError,
    Rejected,
    Stale,
    UnknownCommit,
)
from shared.ports.store import Restored, Write
from shared.runtime.session import Judge


class Session:
    """Remembers what was committed; fails as it is told."""

    def __init__(self) -> None:
        self.units: list[list[str]] = []
        self.failures: list[MusterError] = []
        self.poison: str = ""
        self.opened = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def open(self, judge: Judge | None = None) -> None:
        self.opened += 1
        if judge is not None:
            await judge(Restored(epoch=1, shard="http-0", next_seq=7))

    async def close(self, *, graceful: bool) -> None:
        return

    async def room(self) -> None:
        return

    async def commit(self, outcome) -> None:
        await self.gate.wait()
        names = [emit.subject for emit in outcome.emits]
        if self.failures:
            raise self.failures.pop(0)
        if self.poison in names:
            raise Rejected(self.poison)
        self.units.append(names)


class Reader:
    """`accepted_request` of a session: what was committed is known."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.known: dict[str, str] = {}

    async def fetch(self, sql: str, wanted: Sequence[str]) -> list[dict]:
        rows = {one: self.known[one] for one in wanted if one in self.known}
        return [{"id": one, "body_hash": digest} for one, digest in rows.items()]


SPEC = WorkloadSpec(name="a", kind=WorkloadKind.TRAINING)


def an_order(identifier: str, *, may_exist: bool = False, count: int = 1) -> Order:
    submissions = [
        ValidSubmission(
            workload_id=identifier if count == 1 else f"{identifier}-{number}",
            team="red",
            queue="red",
            body_hash=body_hash(SPEC),
            actor="k",
            by="key ci",
            spec=SPEC,
            at_ms=1,
            cell=0,
            may_exist=may_exist,
        )
        for number in range(count)
    ]
    return Order(submissions=submissions)


@pytest.fixture
async def parts():
    session = Session()
    reader = Reader(session)
    committer = Committer(
        cast("Any", session), reader, structlog.get_logger(), waiting_items_max=10
    )
    task = asyncio.create_task(committer.run())
    await asyncio.sleep(0)
    yield session, reader, committer
    committer.stop()
    await task


async def test_what_comes_during_a_commit_is_the_next_group(parts):
    session, _, committer = parts
    session.gate.clear()

    waiting = [asyncio.create_task(committer.submit(an_order(f"w{n}"))) for n in range(5)]
    await asyncio.sleep(0.01)
    late = asyncio.create_task(committer.submit(an_order("late")))
    await asyncio.sleep(0.01)
    session.gate.set()
    await asyncio.gather(*waiting, late)

    assert session.units == [["w0", "w1", "w2", "w3", "w4"], ["late"]]


async def test_an_order_that_wants_to_be_alone_is(parts):
    session, _, committer = parts
    session.gate.clear()
    orders = [an_order("a"), an_order("b"), an_order("c"), an_order("d")]
    orders[2].alone = True

    tasks = [asyncio.create_task(committer.submit(order)) for order in orders]
    await asyncio.sleep(0.01)
    session.gate.set()
    await asyncio.gather(*tasks)

    assert session.units == [["a", "b"], ["c"], ["d"]]


async def test_more_than_the_queue_holds_is_refused_at_once(parts):
    session, _, committer = parts
    session.gate.clear()

    first = asyncio.create_task(committer.submit(an_order("a", count=9)))
    await asyncio.sleep(0.01)
    with pytest.raises(QueueFull):
        await committer.submit(an_order("b", count=2))
    session.gate.set()

    assert len(await first) == 9


@pytest.mark.parametrize("error", [Stale("s"), LeaseLost("l"), UnknownCommit("u")])
async def test_after_a_broken_session_the_same_group_is_tried_again(parts, error):
    session, _, committer = parts
    session.failures = [error]

    (known,) = await committer.submit(an_order("a"))

    assert (known.replayed, known.conflict) == (False, False)
    assert (session.units, session.opened) == ([["a"]], 2)


async def test_a_commit_that_did_happen_is_found_and_not_made_again(parts):
    session, reader, committer = parts
    session.failures = [UnknownCommit("the answer was lost")]
    reader.known["a"] = body_hash(SPEC)

    (known,) = await committer.submit(an_order("a"))

    assert (known.replayed, session.units) == (True, [])


async def test_one_poisoned_order_does_not_take_its_group_with_it(parts):
    session, _, committer = parts
    session.poison = "bad"
    session.gate.clear()

    names = ("a", "b", "bad", "c", "d")
    tasks = [asyncio.create_task(committer.submit(an_order(name))) for name in names]
    await asyncio.sleep(0.01)
    session.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert [isinstance(one, Rejected) for one in results] == [False, False, True, False, False]
    assert sorted(name for unit in session.units for name in unit) == ["a", "b", "c", "d"]


async def test_a_stale_order_that_is_alone_is_told_so(parts):
    session, _, committer = parts
    session.failures = [Stale("another version")]
    order = Order(writes=[Write("UPDATE", (), 1)], alone=True)

    with pytest.raises(Stale):
        await committer.submit(order)

    assert committer.ready


async def test_stopping_commits_what_waits(parts):
    session, _, committer = parts
    session.gate.clear()

    task = asyncio.create_task(committer.submit(an_order("a")))
    await asyncio.sleep(0.01)
    committer.stop()
    session.gate.set()

    assert len(await task) == 1
    assert session.units == [["a"]]


async def test_nothing_is_accepted_while_the_database_is_older_than_the_log(monkeypatch):
    monkeypatch.setattr(committer_module, "LOST_SECONDS", 0.001)
    session, older = Session(), True

    async def judge(restored: Restored) -> None:
        if older:
            raise DatabaseOlder({("audit-gateway.facts.v1", 0): f"{restored.shard} is older"})

    committer = Committer(
        cast("Any", session), Reader(session), structlog.get_logger(), judge=judge
    )
    task = asyncio.create_task(committer.run())
    while session.opened < 3:
        await asyncio.sleep(0.001)
    assert (False, "http-0 is older") == (committer.ready, committer.why_not_ready)

    older = False
    await committer.submit(an_order("w0"))
    assert (True, "") == (committer.ready, committer.why_not_ready)
    committer.stop()
    await task
