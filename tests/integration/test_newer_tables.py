"""Tables of a newer version, as an older one finds them after a rollback."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from deploy.local.cache import CHECKOUT
from tests.fixtures.servers import Database


@pytest.mark.parametrize(("words", "code"), [(["-x", "newer=kept"], 0), ([], 1)])
def test_they_stay_where_that_is_asked_and_are_an_error_elsewhere(
    database: Database, words: list[str], code: int
) -> None:
    database.execute("UPDATE alembic_version SET version_num = 'from-later'")
    command = [sys.executable, "-m", "alembic", "-c", "migrations/alembic.ini", *words]

    done = subprocess.run(
        [*command, "upgrade", "head"],
        cwd=CHECKOUT,
        env={**os.environ, "MUSTER_DATABASE_URL": database.url()},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (code != 0) == (done.returncode != 0), done.stderr
    assert "from-later" in done.stdout + done.stderr
    assert database.execute("SELECT version_num FROM alembic_version") == "from-later"
