"""Notifications on a real broker and database: receivers that misbehave, kills, and forgeries."""

from __future__ import annotations

import asyncio
import itertools
import signal

import pytest
from standardwebhooks import Webhook

from tests.support.webhooks import KEY, Notifications, Receiver, until

LATE_SECONDS_MAX = 2
"""Who waits for the one that hangs waits a second for each event."""
MOODS = ("down", "error", "busy", "hang", "redirect", "early", "half")
EVENTS = [f"w{number}" for number in range(20)]


def failing(service: Notifications, *names: str) -> list[float]:
    """For how long each destination has failed; -1 where nothing is told of it."""
    name = "muster_notifications_failing_seconds"
    told = service.metric(name)
    return [told.get(f'{name}{{destination="{one}"}}', -1) for one in names]


async def test_receivers_that_misbehave_get_each_event_in_order_and_delay_none(
    service: Notifications, receiver: Receiver
) -> None:
    trap, down = Receiver(), Receiver()
    await trap.start()
    receiver.trap = f"http://127.0.0.1:{trap.port}/trap"
    for mood in MOODS:
        port = down.port if mood == "down" else receiver.port
        await service.apply(mood, f"http://127.0.0.1:{port}/{mood}")
        receiver.moods[f"/{mood}"] = mood
    await service.apply("good", f"http://127.0.0.1:{receiver.port}/good")
    service.start()
    await until(lambda: service.destinations() == len(MOODS) + 1, "documents are not read")

    await service.fail(*EVENTS)
    await until(lambda: receiver.of("/good") == EVENTS, "the good one waits for others", 20)
    late = max(one.at_seconds for one in receiver.taken) - min(
        one.at_seconds for one in receiver.taken
    )
    await until(
        lambda: {f"/{mood}" for mood in MOODS[1:]} <= {one.path for one in receiver.requests},
        "not all are tried",
    )
    await asyncio.sleep(2.5)
    attempts = [one.at_seconds for one in receiver.requests if one.path == "/busy"]
    await until(lambda: all(seconds > 1 for seconds in failing(service, *MOODS)), "not all fail")
    (of_good,) = failing(service, "good")

    receiver.taken.clear()  # before: whoever tries again from now on is taken
    receiver.moods.clear()
    await down.start()
    await until(
        lambda: (
            all(receiver.of(f"/{mood}") == EVENTS for mood in MOODS[1:])
            and down.of("/down") == EVENTS
        ),
        "not all are there in order",
    )
    await until(lambda: service.waiting() == 0, "what was taken is not deleted")

    assert late < LATE_SECONDS_MAX
    assert 0 == trap.connections
    assert all(second - first >= 1.9 for first, second in itertools.pairwise(attempts))
    assert 0 == of_good
    await trap.stop()
    await down.stop()


async def test_a_kill_loses_nothing_and_keeps_the_order(
    service: Notifications, receiver: Receiver
) -> None:
    names = [f"w{number}" for number in range(600)]
    await service.apply("good", f"http://127.0.0.1:{receiver.port}/good")
    service.start()
    await until(lambda: service.destinations() == 1, "the document is not read")
    await service.fail(*names[:300])
    for part in (60, 200, 400):
        await until(lambda: len(receiver.of("/good")) >= part, f"{part} are not there")  # noqa: B023
        await asyncio.to_thread(service.end, signal.SIGKILL)
        if part == 60:
            await service.fail(*names[300:])
        service.start()
    await until(lambda: len(receiver.of("/good")) >= len(names), "some are lost")
    await until(lambda: service.waiting() == 0, "what was taken is not deleted")

    assert names == receiver.of("/good")
    assert len(receiver.taken) < len(names) + 3 * 100


async def test_a_webhook_is_signed_and_only_the_destinations_of_its_team_get_it(
    service: Notifications, receiver: Receiver
) -> None:
    url = f"http://127.0.0.1:{receiver.port}"
    await service.apply("vision", f"{url}/vision", team="vision", events=("failed",))
    await service.apply("speech", f"{url}/speech", team="speech")
    await service.apply("chat", f"{url}/chat", format="slack", secret="")
    await service.apply("loud", f"{url}/loud", min_severity="critical")
    service.start()
    await until(lambda: service.destinations() == 4, "documents are not read")
    await service.fail("w1", team="vision")
    await until(lambda: len(receiver.taken) == 2, "they do not come")
    await asyncio.sleep(0.5)

    paths = {one.path: one for one in receiver.taken}
    told = Webhook(KEY).verify(paths["/vision"].body, paths["/vision"].headers)

    assert {"/vision", "/chat"} == set(paths)
    assert ("muster.failed", 3, "vision") == (
        told["type"],
        told["data"]["exit_code"],
        told["data"]["team"],
    )
    with pytest.raises(Exception, match="No matching signature"):
        Webhook(KEY).verify(paths["/vision"].body + b" ", paths["/vision"].headers)
