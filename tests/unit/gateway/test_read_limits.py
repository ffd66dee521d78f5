"""What a read costs, and whose reads wait for whose."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from aiohttp import ClientSession

from services.gateway.api.routes import ROUTES
from services.gateway.http import read_turns
from services.gateway.http.authorisation import Role, Subject
from services.gateway.http.problems import Problem
from services.gateway.http.rate import Rate
from services.gateway.http.read_cost import EVENT_STREAM, ReadCost, ReadLimits, read_cost
from services.gateway.http.read_turns import ReadTurns
from shared.adapters.clock import SystemClock
from tests.support.bare_gateway import Parts, served

BY_NAME = {route.name: route for route in ROUTES}
FREE = ReadLimits(key_tokens=0, team_tokens=0, in_hand=0)


@pytest.mark.parametrize(
    ("name", "query", "tokens"),
    [
        ("get_workload", {}, 1),
        ("list_workloads", {"limit": "10"}, 2),
        ("list_workloads", {}, 4),
        ("list_workloads", {"limit": "1000"}, 22),
        ("list_workloads", {"limit": "9" * 30}, 22),
        ("list_workloads", {"limit": "x"}, 4),
        ("events", {"limit": "1000"}, 21),
        ("why", {}, 5),
        ("summarise_nodes", {}, 20),
        ("logs", {}, 5),
    ],
)
def test_a_read_costs_what_its_route_says_and_its_rows(
    name: str, query: dict[str, str], tokens: int
):
    cost = read_cost(BY_NAME[name], "GET", query)

    assert cost is not None
    assert tokens == cost.tokens
    assert cost == read_cost(BY_NAME[name], "HEAD", query)


def test_a_stream_costs_its_opening_and_holds_no_place():
    stream = ReadCost(tokens=5, is_stream=True)

    assert stream == read_cost(BY_NAME["events"], "GET", {}, EVENT_STREAM)
    assert stream == read_cost(BY_NAME["logs"], "GET", {"follow": "true"})
    assert ReadCost(tokens=3) == read_cost(BY_NAME["events"], "HEAD", {}, EVENT_STREAM)
    assert ReadCost(tokens=1) == read_cost(BY_NAME["get_workload"], "GET", {}, EVENT_STREAM)


def test_only_reads_cost_and_asking_what_if_is_one():
    costs = {
        route.name: cost
        for route in ROUTES
        if (cost := read_cost(route, route.method, {"dryRun": "true"})) is not None
    }

    assert {"submit": 5, "rehearse_organisation": 20} == {
        name: cost.tokens for name, cost in costs.items() if BY_NAME[name].method == "POST"
    }
    assert not {"DELETE", "PUT", "PATCH"} & {BY_NAME[name].method for name in costs}
    assert not {"healthz", "readyz", "openapi", "metrics"} & set(costs)
    assert read_cost(BY_NAME["submit"], "POST", {}) is None


def test_a_bucket_in_debt_tells_how_long_it_lasts():
    rate = Rate(10, burst_seconds=2.0)

    assert 0 == rate.wait_seconds("a", 100.0, 20)
    rate.spend("a", 100.0, 20)
    assert 0.5 == pytest.approx(rate.wait_seconds("a", 100.0, 5))
    rate.spend("a", 100.0, 5)
    assert 1.0 == pytest.approx(rate.wait_seconds("a", 100.0, 5))
    assert 0 == rate.wait_seconds("b", 100.0, 5)
    assert 0 == rate.wait_seconds("a", 103.0, 20)
    assert 0 == rate.wait_seconds("b", 100.0, 1_000)  # more than a bucket holds
    rate.spend("a", 200.0, 20)  # long after, a bucket holds its burst and no more
    assert 0.5 == pytest.approx(rate.wait_seconds("a", 200.0, 5))


def key(team: str, name: str = "k") -> Subject:
    return Subject(name=f"{team}-{name}", team=team, role=Role.VIEWER)


async def read(turns: ReadTurns, subject: Subject, *, tokens: int = 1, seconds: float = 0) -> str:
    """What becomes of a read that takes so long: "done", or the problem."""
    try:
        async with turns.turn(subject, ReadCost(tokens=tokens)):
            await asyncio.sleep(seconds)
    except Problem as problem:
        return problem.document.detail
    return "done"


async def test_a_read_without_tokens_waits_until_they_are_there():
    turns = ReadTurns(ReadLimits(key_tokens=100, team_tokens=0, in_hand=0), SystemClock())
    loop = asyncio.get_running_loop()
    assert "done" == await read(turns, key("red"), tokens=500)  # the burst
    started = loop.time()

    told = await asyncio.gather(*(read(turns, key("red"), tokens=10) for _ in range(3)))

    assert ["done"] * 3 == told
    assert 0.29 < loop.time() - started < 0.6
    assert "done" == await asyncio.wait_for(read(turns, key("red", "other"), tokens=10), 0.1)


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (ReadLimits(key_tokens=10, team_tokens=20, in_hand=0), "a key may cost 10 tokens"),
        (ReadLimits(key_tokens=0, team_tokens=10, in_hand=0), "team red may cost 10 tokens"),
    ],
)
async def test_a_read_that_would_wait_too_long_is_refused_with_number_and_next_step(
    monkeypatch: pytest.MonkeyPatch, limits: ReadLimits, sentence: str
):
    monkeypatch.setattr(read_turns, "REFUSAL_SECONDS", 0.05)
    turns = ReadTurns(limits, SystemClock())
    assert "done" == await read(turns, key("red"), tokens=50)

    with pytest.raises(Problem) as refused:
        async with turns.turn(key("red"), ReadCost(tokens=40)):
            pass

    problem = refused.value
    assert (429, "4") == (problem.status, problem.headers["Retry-After"])
    detail = problem.document.detail
    assert sentence in detail
    assert "this one costs 40: try again in 4 s, read fewer rows (`limit`)" in detail
    assert "done" == await asyncio.wait_for(read(turns, key("blue"), tokens=40), 0.1)


async def test_a_refusal_comes_no_faster_than_a_turn(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(read_turns, "REFUSAL_SECONDS", 0.2)
    turns = ReadTurns(ReadLimits(key_tokens=1, team_tokens=0, in_hand=0), SystemClock())
    await read(turns, key("red"), tokens=5)
    loop, asked = asyncio.get_running_loop(), 0
    end = loop.time() + 0.7

    while loop.time() < end:
        assert "done" != await read(turns, key("red"), tokens=5)
        asked += 1

    assert asked <= 4


async def test_keys_of_one_team_share_its_tokens():
    turns = ReadTurns(ReadLimits(key_tokens=100, team_tokens=100, in_hand=0), SystemClock())
    loop = asyncio.get_running_loop()
    await read(turns, key("red", "a"), tokens=500)
    started = loop.time()

    await read(turns, key("red", "b"), tokens=30)

    assert loop.time() - started > 0.25


async def test_a_team_has_so_many_reads_in_hand_and_the_others_wait_for_their_turn():
    turns = ReadTurns(ReadLimits(key_tokens=0, team_tokens=0, in_hand=2), SystemClock())
    in_hand: Counter[str] = Counter()
    most: Counter[str] = Counter()
    ended: list[int] = []

    async def one(team: str, number: int) -> None:
        async with turns.turn(key(team), ReadCost(tokens=1)):
            in_hand[team] += 1
            most[team] = max(most[team], in_hand[team])
            await asyncio.sleep(0.01)
            in_hand[team] -= 1
            ended.append(number)

    await asyncio.gather(*(one("red", n) for n in range(10)), *(one("blue", n) for n in (99, 98)))

    assert {"red": 2, "blue": 2} == most
    assert [0, 1, 99, 98] == ended[:4]
    assert list(range(2, 10)) == ended[4:]
    assert not turns._places  # nothing is kept of a team that reads nothing
    assert not turns._waiting


async def test_who_waits_too_long_for_a_place_is_told_of_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(read_turns, "TURN_SECONDS_MAX", 0.05)
    turns = ReadTurns(ReadLimits(key_tokens=0, team_tokens=0, in_hand=1), SystemClock())

    told = await asyncio.gather(*(read(turns, key("red"), seconds=0.2) for _ in range(2)))

    assert "done" == told[0]
    assert told[1].startswith("team red has 1 reads in hand, the most at once")
    assert "done" == await read(turns, key("red"))
    assert not turns._places


async def test_a_stream_holds_no_place_and_one_that_leaves_gives_its_place_back():
    turns = ReadTurns(ReadLimits(key_tokens=0, team_tokens=0, in_hand=1), SystemClock())
    waiting = asyncio.create_task(read(turns, key("red"), seconds=60))
    await asyncio.sleep(0)
    other = asyncio.create_task(read(turns, key("red")))
    async with turns.turn(key("red"), ReadCost(tokens=20, is_stream=True)):
        other.cancel()
        waiting.cancel()
        await asyncio.wait([other, waiting])
        assert "done" == await asyncio.wait_for(read(turns, key("red")), 0.5)


async def test_where_too_many_wait_the_next_one_loses_its_connection(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(read_turns, "WAITING_MAX", 2)
    turns = ReadTurns(ReadLimits(key_tokens=0, team_tokens=0, in_hand=1), SystemClock())
    reads = [asyncio.create_task(read(turns, key("red"), seconds=0.05)) for _ in range(3)]
    await asyncio.sleep(0.01)

    with pytest.raises(Problem, match="2 reads of team red wait already") as refused:
        async with turns.turn(key("red"), ReadCost(tokens=1)):
            pass

    assert refused.value.closes
    assert {"done"} == set(await asyncio.gather(*reads))


async def test_a_read_beyond_the_limits_is_answered_with_429(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(read_turns, "REFUSAL_SECONDS", 0.05)
    turns = ReadTurns(ReadLimits(key_tokens=2, team_tokens=0, in_hand=0), SystemClock())
    headers = {"Authorization": "Bearer " + "a" * 43}
    async with served(Parts(), reads=turns) as port, ClientSession(headers=headers) as http:

        async def ask(path: str) -> tuple[int, str]:
            async with http.get(f"http://127.0.0.1:{port}{path}") as reply:
                return reply.status, reply.headers.get("Retry-After", "")

        answers = Counter(await asyncio.gather(*(ask("/v1/flavors") for _ in range(16))))
        assert (200, "") == await ask("/healthz")

    assert {(200, ""): 14, (429, "3"): 2} == answers  # the burst, and what is waited for
