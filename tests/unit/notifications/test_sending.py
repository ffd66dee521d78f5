"""Nothing is connected to but what was judged; nothing that users wrote becomes markup."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from services.notifications.courier import DeliveryPace
from services.notifications.notices import Notice
from services.notifications.rendering import slack_body, webhook_body
from shared.adapters.webhooks import HttpWebhooks
from shared.core.notifications.addresses import networks_of
from shared.core.notifications.events import NoticeKind, Severity
from tests.support.webhooks import Receiver

HOSTILE = "<!channel> @here *x* <https://evil|ok>\n\u202efake & more"


class Names:
    """A resolver whose answers change from one question to the next."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def addresses(self, host: str) -> Sequence[str]:
        del host
        self.asked += 1
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@pytest.fixture
async def receiver():
    one = Receiver()
    await one.start()
    yield one
    await one.stop()


async def test_a_name_that_leads_home_is_never_connected_to(receiver: Receiver) -> None:
    """The setting names another network, so that http and the port are not what refuses it."""
    networks = networks_of("10.1.0.0/16")
    url = f"http://receiver.test:{receiver.port}/"
    for answer in (["127.0.0.1"], ["10.1.0.1", "127.0.0.1"], ["::ffff:127.0.0.1"], []):
        webhooks = HttpWebhooks(Names(answer), networks, 2)
        found = await webhooks.post(url, {}, b"{}")
        assert found.problem
        assert 0 == found.status
        await webhooks.close()
    assert 0 == receiver.connections


async def test_an_answer_of_dns_that_changes_is_judged_anew_for_each_connection(
    receiver: Receiver,
) -> None:
    """First it is where it may be; then, with the connection gone, it is a neighbour."""
    names = Names(["127.0.0.1"], ["127.0.0.2"])
    webhooks = HttpWebhooks(names, networks_of("127.0.0.1"), 2)
    receiver.moods["/"] = "early"
    url = f"http://receiver.test:{receiver.port}/"

    first, second = [await webhooks.post(url, {}, b"{}") for _ in range(2)]
    await webhooks.close()

    assert 2 == names.asked
    assert 1 == receiver.connections
    assert "127.0.0.2" not in first.problem
    assert "leads to 127.0.0.2" in second.problem


async def test_the_host_of_the_name_stays(receiver: Receiver) -> None:
    webhooks = HttpWebhooks(Names(["127.0.0.1"]), networks_of("127.0.0.1"), 2)
    found = await webhooks.post(f"http://receiver.test:{receiver.port}/a", {}, b"{}")
    await webhooks.close()
    assert ("", 200) == (found.problem, found.status)
    assert f"receiver.test:{receiver.port}" == receiver.taken[0].headers["host"]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "2130706433"])
async def test_a_literal_address_is_judged(receiver: Receiver, host: str) -> None:
    webhooks = HttpWebhooks(Names(["127.0.0.1"]), networks_of("10.0.0.0/8"), 2)
    found = await webhooks.post(f"http://{host}:{receiver.port}/", {}, b"{}")
    await webhooks.close()
    assert found.problem
    assert 0 == receiver.connections


def test_hostile_names_stay_values() -> None:
    notice = Notice(
        id="1",
        kind=NoticeKind.FAILED,
        severity=Severity.WARNING,
        team=HOSTILE,
        at_ms=0,
        text="workload w1 failed",
        fields={"message": HOSTILE},
    )
    slack = msgspec.json.decode(slack_body([notice]))
    block = slack["blocks"][0]["text"]

    assert "plain_text" == block["type"]
    assert block["text"].isprintable()
    assert not {"<", ">"} & set(slack["text"])
    assert "@here" not in slack["text"]
    assert HOSTILE == msgspec.json.decode(webhook_body([notice], digest=False))["data"]["message"]


def test_pauses_double_up_to_the_longest_and_a_receiver_may_ask_for_more() -> None:
    pace = DeliveryPace(first_retry_seconds=1, last_retry_seconds=8)
    assert [1, 2, 4, 8, 8] == [pace.pause_seconds(one, 0) for one in range(1, 6)]
    assert 60 == pace.pause_seconds(1, 60)
    assert 8 == pace.pause_seconds(10_000, 0)
