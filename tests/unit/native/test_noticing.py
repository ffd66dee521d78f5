"""The order in which notices are written, and which of them are."""

import asyncio
from typing import Any

import pytest
from typing_extensions import override

from services.native.noticing import Noticing
from shared.ports.native import PodNotice
from tests.support.native_world import Notices


def a_notice(name, message, reason="QuotaExceeded"):
    return PodNotice(namespace="a", name=name, uid=name, reason=reason, message=message)


class Turning(Notices):
    """While the words `turned` are written, the pod is told what stood there before."""

    def __init__(self, turned, back, failures):
        super().__init__()
        self.noticing: Any = None
        self._turned, self._back, self._then = turned, [back], failures

    @override
    async def write(self, notice):
        if notice == self._turned and self._back:
            self.noticing.tell([self._back.pop()])
            self.failures = self._then
        await super().write(notice)


async def told(monkeypatch, *rounds, api=None):
    """What is written when each round comes after the one before was written."""
    monkeypatch.setattr("services.native.noticing.PAUSE_SECONDS", 0)
    monkeypatch.setattr("services.native.noticing.RETRY_SECONDS", 0)
    api = api or Notices()
    api.noticing = noticing = Noticing(api, lambda _: True)
    noticing.start()
    for notices in rounds:
        api.written.clear()
        noticing.tell(notices)
        for _ in range(20):
            await asyncio.sleep(0)
    await noticing.stop()
    return [(one.name, one.message) for one in api.written]


async def test_a_new_reason_goes_before_other_numbers_of_one_that_was_told(monkeypatch):
    first = [a_notice("old", "8 of 8 GPUs"), a_notice("turned", "8 of 8 GPUs")]
    then = [
        a_notice("old", "7 of 8 GPUs"),
        a_notice("turned", "held", reason="Held"),
        a_notice("young", "7 of 8 GPUs"),
    ]
    assert await told(monkeypatch, first, then) == [
        ("turned", "held"),
        ("young", "7 of 8 GPUs"),
        ("old", "7 of 8 GPUs"),
    ]


async def test_only_the_newest_is_written_and_nothing_that_stands_there(monkeypatch):
    first = [a_notice("pod", "8 of 8 GPUs")]
    back = [a_notice("pod", "7 of 8 GPUs"), a_notice("pod", "8 of 8 GPUs")]
    assert await told(monkeypatch, first, back) == []
    turned = [a_notice("pod", "held", reason="Held"), a_notice("pod", "7 of 8 GPUs")]
    assert await told(monkeypatch, first, turned) == [("pod", "7 of 8 GPUs")]


@pytest.mark.parametrize("failures", [0, 1])
async def test_what_is_true_again_while_other_words_are_written_stands_at_last(
    monkeypatch, failures
):
    first, turned = a_notice("pod", "8 of 8 GPUs"), a_notice("pod", "7 of 8 GPUs")
    api = Turning(turned, first, failures)
    found = await told(monkeypatch, [first], [turned], api=api)
    assert found[-1] == ("pod", "8 of 8 GPUs")
