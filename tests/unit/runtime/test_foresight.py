"""What a handler wants to know first is read first: from its topics to the subscription."""

from types import SimpleNamespace
from typing import Any

import pytest

from services.quota.handler import QuotaHandler
from shared.events.topics import ORGANISATION_FACTS, QUEUE_FACTS
from shared.runtime import main
from tests.unit.runtime.world import Telling


@pytest.mark.parametrize(
    ("handler", "expected"),
    [(QuotaHandler(), {ORGANISATION_FACTS.name, QUEUE_FACTS.name}), (Telling(), set())],
)
def test_the_subscription_of_a_handler_knows_what_comes_first(monkeypatch, handler, expected):
    made: list[Any] = []
    monkeypatch.setattr(main, "KafkaSubscription", lambda *arguments: made.append(arguments))
    monkeypatch.setattr(main, "Loop", lambda **_: None)
    nothing = SimpleNamespace(wake=None)
    settings = SimpleNamespace(
        kafka="access",
        topic_prefix="muster",
        cell=0,
        batch_messages_max=1,
        exit_on_decision_error=False,
    )
    parts: Any = SimpleNamespace(
        settings=settings,
        session=nothing,
        database=nothing,
        store=SimpleNamespace(seen=None),
        log=nothing,
        failpoints=nothing,
    )

    main.loop_of(parts, handler, watchdog=nothing)  # type: ignore[arg-type]

    ((access, prefix, first),) = made
    assert (access, prefix, set(first)) == ("access", "muster", expected)
