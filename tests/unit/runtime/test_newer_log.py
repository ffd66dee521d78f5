"""A database that is older than the log decides nothing, until a person has chosen."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from shared.ports.errors import DatabaseOlder, MusterError, Transient
from shared.ports.store import Restored
from shared.runtime import loop as loop_module
from shared.runtime.newer_log import NewerLog, sealed_by, written_by

FACTS = ("quota.facts.v1", 0)
TEAMS = ("team.facts.v1", 0)


class Written:
    """What the log says; asked how often."""

    def __init__(self, **numbers: int) -> None:
        self.numbers = numbers
        self.asked: list[Any] = []
        self.subjects: list[str] = []
        self.away: MusterError | None = None

    async def newest(
        self, places: Any, source: str, subject: str = ""
    ) -> dict[tuple[str, int], int]:
        self.asked.append((list(places), source))
        self.subjects.append(subject)
        if self.away is not None:
            raise self.away
        return {(f"{name}.facts.v1", 0): number for name, number in self.numbers.items()}


def restored(next_seq: int) -> Restored:
    return Restored(epoch=3, shard="cell-0", next_seq=next_seq)


async def test_a_database_that_gave_the_newest_number_is_as_new_as_the_log():
    written = Written(quota=41, team=7)

    await NewerLog(written, "quota", (FACTS, TEAMS)).check(restored(42))

    assert [([FACTS, TEAMS], "quota")] == written.asked


async def test_an_older_database_is_told_with_the_numbers_and_the_next_step():
    with pytest.raises(DatabaseOlder) as caught:
        await NewerLog(Written(quota=42, team=7), "quota", (FACTS, TEAMS)).check(restored(42))

    assert {
        FACTS: "quota.facts.v1 partition 0: the newest record of quota is number 42, and 42 is"
        " next in its database, which is older than the log; bring the database forward"
        " (muster-ops recover postgres), or accept that the service forgets what it told since:"
        " UPDATE quota.watermark SET next_seq = 43, acked_seq = 42"
        " WHERE shard = 'cell-0' AND next_seq <= 42"
    } == caught.value.sentences


async def test_who_writes_nowhere_asks_nobody():
    written = Written(quota=42)

    await NewerLog(written, "quota", ()).check(restored(1))

    assert not written.asked


def test_each_service_looks_where_its_shard_writes():
    assert [FACTS, TEAMS] == written_by("quota", 0)
    assert [("quota.facts.v1", 3), ("team.facts.v1", 3)] == written_by("quota", 3)
    assert [("node.facts.v1", 0)] == written_by("cluster_watcher", 0)
    assert [] == list(written_by("gateway", 0)), "its processes count each for itself"


async def test_a_process_that_counts_for_itself_compares_its_seals_where_the_broker_answers():
    places = sealed_by("gateway", 2)
    written = Written(**{"audit-gateway": 42})
    seals = NewerLog(written, "gateway", places, "http-1")

    with pytest.raises(DatabaseOlder):
        await seals.check_if_answered(restored(42))
    written.away = Transient("the broker is away")
    await seals.check_if_answered(restored(42))

    assert [([("audit-gateway.facts.v1", 2)], "gateway")] * 2 == written.asked
    assert ["http-1", "http-1"] == written.subjects


async def test_nothing_is_decided_before_a_person_has_chosen(world, monkeypatch):
    monkeypatch.setattr(loop_module, "LOST_BACKOFFS", 3)
    written = Written(quota=9)
    world.newer_log = NewerLog(written, "quota", (FACTS,))
    world.feed_numbers(1)
    with capture_logs() as logs:
        world.begin()
        await world.until(lambda: len(written.asked) > 1)
    assert not world.loop.ready
    assert "the newest record of quota is number 9" in world.loop.why_not_ready
    assert (0, []) == (world.handler.loads, world.out())
    assert 1 == sum(one["event"] == "database older" for one in logs)

    written.numbers = {"quota": 0}
    await world.until(lambda: len(world.passed()) == 1)

    assert world.loop.ready
    assert not world.loop.why_not_ready


async def test_a_session_that_is_judged_commits_nothing_before_nor_after_a_refusal(world):
    session = world.session()
    keepers: list[str] = []

    async def judge(found: Restored) -> None:
        keepers.extend(one.get_name() for one in session._tasks)
        raise DatabaseOlder({FACTS: f"the newest is {found.next_seq}"})

    with pytest.raises(DatabaseOlder):
        await session.open(judge=judge)
    await session.close(graceful=True)

    assert {"relay", "lease"} <= set(keepers)
    assert "watermark" not in keepers, "it seals the audit, under a number that may be taken"
    assert 1 == world.shard.next_unit
