"""Listeners of events: what they get, and what a slow one loses."""

import asyncio

import pytest
import structlog

from services.gateway.app.event_hub import QUEUE_EVENTS_MAX, EventHub, Listener


def row(seq: int, team: str = "red", workload_id: str = "w1") -> dict:
    return {"seq": seq, "team": team, "workload_id": workload_id}


class Reader:
    def __init__(self) -> None:
        self.rows: list[dict] = []
        self.reads = 0

    async def fetch(self, sql: str, *arguments: int) -> list[dict]:
        self.reads += 1
        if not arguments:
            return [{"seq": self.rows[-1]["seq"] if self.rows else 0}]
        return [one for one in self.rows if one["seq"] > arguments[0]][: arguments[1]]


@pytest.fixture
async def hub():
    reader = Reader()
    hub = EventHub(reader, structlog.get_logger())
    task = asyncio.create_task(hub.run())
    yield hub, reader
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_listener_gets_the_events_of_its_team_only(hub):
    hub, reader = hub
    listener = Listener("red", None)
    await hub.newest()

    with hub.listening(listener):
        reader.rows = [row(1), row(2, team="blue"), row(3)]
        taken = await listener.take(2)

    assert [one["seq"] for one in taken] == [1, 3]


async def test_a_listener_to_a_workload_gets_nothing_of_others():
    listener = Listener(None, "w1")

    for one in (row(1), row(2, workload_id="w2")):
        listener.offer(one)

    assert [one["seq"] for one in await listener.take(0.1)] == [1]


async def test_what_was_before_the_first_listener_is_not_handed_out(hub):
    hub, reader = hub
    reader.rows = [row(1), row(2)]
    listener = Listener(None, None)

    newest = await hub.newest()
    with hub.listening(listener):
        reader.rows.append(row(3))
        taken = await listener.take(2)

    assert (newest, [one["seq"] for one in taken]) == (2, [3])


async def test_nobody_listening_means_nobody_asking(hub):
    _, reader = hub

    await asyncio.sleep(0.15)

    assert reader.reads == 0


async def test_a_slow_listener_loses_its_queue_and_is_told():
    listener = Listener(None, None)

    for seq in range(QUEUE_EVENTS_MAX + 5):
        listener.offer(row(seq))

    assert listener.overflowed
    assert [one["seq"] for one in await listener.take(0.1)] == list(
        range(QUEUE_EVENTS_MAX, QUEUE_EVENTS_MAX + 5)
    )
