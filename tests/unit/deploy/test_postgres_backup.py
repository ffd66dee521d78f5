"""Which data the kept log of commits follows, and what a restore needs."""

from pathlib import Path

import pytest

from deploy.local.postgres_backup import SYNCHRONOUS, Backup
from deploy.local.processes import LocalError


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    (tmp_path / "data").mkdir()
    return Backup(tmp_path / "backup", tmp_path / "data")


def copy_as_base(backup: Backup, tmp_path: Path) -> None:
    backup.base.mkdir()
    for path in (tmp_path / "data").iterdir():
        (backup.base / path.name).write_text(path.read_text())


def test_commits_wait_for_the_receiver_only_where_they_are_kept(backup: Backup):
    before = backup.settings()
    backup.keep(None)

    assert ("", SYNCHRONOUS) == (before, backup.settings())


def test_data_that_were_put_back_alone_are_not_followed(backup: Backup, tmp_path: Path):
    backup.keep(None)
    backup.count_up(None)
    copy_as_base(backup, tmp_path)
    backup.count_up(None)
    followed = backup.follows

    for path in backup.base.iterdir():
        (tmp_path / "data" / path.name).write_text(path.read_text())

    assert (True, False) == (followed, backup.follows)
    assert not backup.settings()


def test_a_restore_replays_the_log_and_keeps_what_was_there(backup: Backup, tmp_path: Path):
    backup.keep(None)
    (tmp_path / "data" / "rows").write_text("old")
    copy_as_base(backup, tmp_path)
    (tmp_path / "data" / "rows").write_text("new")

    backup.restore(None)

    assert "old" == (tmp_path / "data" / "rows").read_text()
    assert ["new"] == [one.read_text() for one in tmp_path.glob("data.before-*/rows")]
    assert backup.replays
    assert str(backup.wal) in backup.settings()
    assert SYNCHRONOUS not in backup.settings()


def test_a_restore_without_backup_or_log_changes_nothing(backup: Backup, tmp_path: Path):
    with pytest.raises(LocalError, match="no base backup"):
        backup.restore(None)
    backup.base.mkdir(parents=True)
    with pytest.raises(LocalError, match="no log to replay"):
        backup.restore(None)

    assert (tmp_path / "data").is_dir()
    assert not backup.replays
