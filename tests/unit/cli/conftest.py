"""Fixtures of the command line: a gateway of canned answers, and a call of `muster`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.cli.application import run
from tests.support.commands import Done, ended
from tests.unit.cli.gateway import FakeGateway


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    fake = FakeGateway()
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def muster(
    gateway: FakeGateway, capsys, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Done]:
    """Call `muster ...` in this process, with the fake gateway's address and a key."""
    monkeypatch.setenv("MUSTER_ADDRESS", gateway.address)
    monkeypatch.setenv("MUSTER_KEY", "mk_test")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("muster.transport.BACKOFF_SECONDS", 0.001)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Done:
        return ended(capsys, lambda: run(list(arguments)))

    return call
