"""How often the read model is counted, and that the limit is met early rather than late."""

import asyncio

from services.gateway.app.backlog import FAR_SECONDS, NEAR_SECONDS, Backlog


class Clock:
    now = 1_000.0

    def monotonic_seconds(self):
        return self.now

    def now_ms(self):
        return int(self.now * 1000)


class Rows:
    """A read model with `alive` workloads of every team."""

    def __init__(self, alive=0):
        self.alive = alive
        self.asked = 0

    async def fetch(self, sql, *arguments):
        self.asked += 1
        await asyncio.sleep(0)
        return [{"alive": min(self.alive, arguments[1]), "known": self.alive}]


async def test_there_is_room_up_to_the_limit_and_no_further():
    backlog = Backlog(Rows(alive=7), Clock())

    answers = [await backlog.take("red", count, 10) for count in (2, 2, 1, 1)]

    assert [None, 9, None, 10] == answers


async def test_near_the_limit_it_is_counted_once_a_second():
    rows, clock = Rows(alive=9), Clock()
    backlog = Backlog(rows, clock)

    for _ in range(5):
        await backlog.take("red", 1, 10)
    rows.alive = 3
    clock.now += NEAR_SECONDS / 2
    full = await backlog.take("red", 1, 10)
    clock.now += NEAR_SECONDS
    room = await backlog.take("red", 1, 10)

    assert (10, None, 2) == (full, room, rows.asked)


async def test_far_from_the_limit_it_is_counted_once_a_minute():
    rows, clock = Rows(alive=3), Clock()
    backlog = Backlog(rows, clock)

    for _ in range(5):
        await backlog.take("red", 1, 1_000)
        clock.now += FAR_SECONDS / 6
    seldom = rows.asked
    clock.now += FAR_SECONDS
    await backlog.take("red", 1, 1_000)

    assert (1, 2) == (seldom, rows.asked)


async def test_what_came_since_the_count_brings_it_near_the_limit():
    rows, clock = Rows(), Clock()
    backlog = Backlog(rows, clock)
    await backlog.take("red", 400, 1_000)
    clock.now += NEAR_SECONDS * 2

    await backlog.take("red", 200, 1_000)

    assert 2 == rows.asked


async def test_another_limit_is_counted_for_anew():
    rows, clock = Rows(alive=30), Clock()
    backlog = Backlog(rows, clock)

    answers = [await backlog.take("red", 1, most) for most in (10, 20, 31)]

    assert [10, 20, None] == answers


async def test_many_at_once_share_one_count():
    rows = Rows(alive=5)
    backlog = Backlog(rows, Clock())

    answers = await asyncio.gather(*(backlog.take("red", 1, 10) for _ in range(20)))

    assert 1 == rows.asked
    assert 5 == answers.count(None)
