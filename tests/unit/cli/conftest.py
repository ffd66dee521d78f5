"""Fixtures of the command line: a gateway of canned answers, and a call of `muster`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from muster.cli.application import run
from tests.unit.cli.gateway import FakeGateway


@dataclass
class Done:
    """What a call of `muster` left behind."""

    code: int
    out: str
    err: str


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
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            run(list(arguments))
        out, err = capsys.readouterr()
        return Done(int(ended.value.code or 0), out, err)

    return call
