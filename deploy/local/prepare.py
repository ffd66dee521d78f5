"""What must stand before the services start: the database's tables and the broker's topics."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from deploy.local.cache import CHECKOUT
from deploy.local.processes import LocalError
from deploy.local.services import TOPIC_PREFIX

MIGRATE = ("alembic", "-c", "migrations/alembic.ini", "upgrade", "head")
CREATE_TOPICS = ("shared.adapters.kafka_topics", "create")
SECONDS_MAX = 120


def migrate(database_url: str) -> None:
    """Bring the database to the newest tables, as its owner.

    Raises:
        LocalError: a migration failed.
    """
    if (CHECKOUT / "migrations" / "alembic.ini").exists():
        _run_module(MIGRATE, {"MUSTER_DATABASE_URL": database_url})


def create_topics(bootstrap: str, prefix: str = TOPIC_PREFIX) -> None:
    """Make the topics that are missing.

    Raises:
        LocalError: the broker refused.
    """
    if (CHECKOUT / "shared" / "adapters" / "kafka_topics.py").exists():
        variables = {"MUSTER_KAFKA_BOOTSTRAP": bootstrap, "MUSTER_TOPIC_PREFIX": prefix}
        _run_module(CREATE_TOPICS, variables)


def _run_module(
    arguments: tuple[str, ...], variables: Mapping[str, str], folder: Path = CHECKOUT
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    if done.returncode != 0:
        raise LocalError(f"{' '.join(arguments)} failed:\n{(done.stdout + done.stderr)[-3000:]}")
