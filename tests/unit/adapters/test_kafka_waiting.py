"""A process that waits until the broker lets it in."""

from __future__ import annotations

import pytest

from shared.adapters.kafka import administration
from shared.ports.kafka_access import KafkaAccess


async def test_waiting_ends_when_the_broker_lets_the_user_in_and_tells_each_new_reason_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reasons = [": none", ": none", ": wrong password", ""]

    async def refusal(_access: KafkaAccess) -> str:
        return reasons.pop(0)

    monkeypatch.setattr(administration, "refusal", refusal)
    monkeypatch.setattr(administration, "PAUSE_SECONDS", 0)

    await administration.wait_for_login(KafkaAccess(bootstrap="broker:9092"))

    assert reasons == []
    assert capsys.readouterr().err.splitlines() == [
        "waiting for the broker: none",
        "waiting for the broker: wrong password",
    ]
