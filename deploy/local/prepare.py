"""What must stand before the services: tables in the database, topics and users on the broker."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr

from deploy.local.cache import CHECKOUT
from deploy.local.processes import LocalError
from deploy.local.services import TOPIC_PREFIX
from shared.ports.kafka_access import KafkaAccess

RECOVER = ("operations", "recover", "kafka", "--users", "-")
MIGRATE = ("alembic", "-c", "migrations/alembic.ini", "upgrade", "head")
CREATE_TOPICS = ("shared.adapters.kafka.topics", "create")
ADMIT = ("shared.adapters.kafka.administration", "apply")
SECONDS_MAX = 120


def migrate(database_url: str, checkout: Path = CHECKOUT) -> None:
    """Bring the database to the newest tables of a checkout, as its owner.

    Raises:
        LocalError: a migration failed.
    """
    if (checkout / "migrations" / "alembic.ini").exists():
        _run_module(MIGRATE, {"MUSTER_DATABASE_URL": database_url}, checkout=checkout)


def create_topics(administrator: KafkaAccess, checkout: Path = CHECKOUT) -> None:
    """Make the topics of a checkout that are missing.

    Raises:
        LocalError: the broker refused.
    """
    variables = {**administrator.variables(), "MUSTER_TOPIC_PREFIX": TOPIC_PREFIX}
    _run_module(CREATE_TOPICS, variables, checkout=checkout)


def admit(
    administrator: KafkaAccess, passwords: Mapping[str, SecretStr], checkout: Path = CHECKOUT
) -> None:
    """Make users and their grants so, by the table of a checkout.

    Raises:
        LocalError: the broker refused.
    """
    variables = {**administrator.variables(), "MUSTER_TOPIC_PREFIX": TOPIC_PREFIX}
    _run_module(ADMIT, variables, _lines(passwords), checkout=checkout)


def recover(
    administrator: KafkaAccess, passwords: Mapping[str, SecretStr], database_url: str
) -> str:
    """Topics, users and grants as they must be, with the records of a broker that lost its data.

    Returns what was done.

    Raises:
        LocalError: the broker or the database refused.
    """
    variables = {
        **administrator.variables(),
        "MUSTER_TOPIC_PREFIX": TOPIC_PREFIX,
        "MUSTER_DATABASE_URL": database_url,
    }
    return _run_module(RECOVER, variables, _lines(passwords))


def _lines(passwords: Mapping[str, SecretStr]) -> str:
    return "".join(f"{role}={text.get_secret_value()}\n" for role, text in passwords.items())


def _run_module(
    arguments: tuple[str, ...],
    variables: Mapping[str, str],
    standard_input: str = "",
    *,
    checkout: Path = CHECKOUT,
) -> str:
    """What it printed."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=checkout,
        env={**os.environ, **variables},
        input=standard_input,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    if done.returncode != 0:
        raise LocalError(f"{' '.join(arguments)} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout
