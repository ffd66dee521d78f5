"""`make status`: where the system is reached, without the password of its database."""

from pathlib import Path

import pytest

from deploy.local import __main__ as local
from deploy.local.state import State


def test_the_status_hides_the_password_of_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    found = State(
        supervisor=1,
        started=True,
        processes={},
        addresses={},
        probes={},
        gateway="http://127.0.0.1:8080",
        kafka="127.0.0.1:9092",
        kafka_logins={},
        database="postgresql://reader:s3cret@127.0.0.1:5432/muster",
        admin_key_file="admin.key",
    )
    monkeypatch.setattr("deploy.local.supervisor.is_up", lambda _folder: True)
    monkeypatch.setattr("deploy.local.state.read", lambda _folder: found)

    assert 0 == local.status(tmp_path)

    shown = capsys.readouterr().out
    assert "postgresql://reader:***@127.0.0.1:5432/muster" in shown
    assert "s3cret" not in shown
