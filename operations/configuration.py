"""Addresses and logins of database and broker: options, environment, or a local system near by.

Kafka's user and password come from the environment (docs/settings.md), never from an option:
every user of a machine can read the arguments of its processes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from shared.events.grants import READER, principal_of
from shared.ports.kafka_access import KafkaAccess, access_of

STATE_FILE: Final = Path(".muster/state.json")


class NotConfigured(Exception):  # noqa: N818  # says what happened
    """No address was given or found; the text says what to give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where to read: PostgreSQL URL, Kafka bootstrap, prefix of the topics."""

    database: str
    kafka: KafkaAccess
    prefix: str


def find(
    database: str | None = None,
    kafka: str | None = None,
    prefix: str | None = None,
    *,
    role: str = READER,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Addresses:
    """Addresses from options, `MUSTER_*` variables, or the nearest `.muster/state.json`.

    `role` picks the login of a local system: that of the reader, or the operator's.

    Raises:
        NotConfigured: one of them is nowhere.
    """
    environment = os.environ if environment is None else environment
    local = local_state(environment, folder or Path.cwd())
    found_database = (
        database or environment.get("MUSTER_DATABASE_URL") or local.get("database", "")
    )
    told = kafka or environment.get("MUSTER_KAFKA_BOOTSTRAP")
    variables = environment if told else local.get("kafka_logins", {}).get(role, {})
    bootstrap = told or local.get("kafka", "")
    if not found_database or not bootstrap:
        raise NotConfigured(
            "Give --database and --kafka, set MUSTER_DATABASE_URL and MUSTER_KAFKA_BOOTSTRAP, or "
            "start a local system with `make up`."
        )
    return Addresses(
        database=found_database,
        kafka=access_of({**variables, "MUSTER_KAFKA_BOOTSTRAP": bootstrap}),
        prefix=prefix or environment.get("MUSTER_TOPIC_PREFIX") or "muster",
    )


def local_users(kafka: str | None = None) -> dict[str, SecretStr]:
    """Passwords of the broker's users by role, where a local system is the one that is meant."""
    if kafka or os.environ.get("MUSTER_KAFKA_BOOTSTRAP"):
        return {}
    logins = local_state(os.environ, Path.cwd()).get("kafka_logins", {})
    return {
        role: SecretStr(variables["MUSTER_KAFKA_PASSWORD"])
        for role, variables in logins.items()
        if variables.get("MUSTER_KAFKA_USER") == principal_of(role)
    }


def local_state(environment: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """The `state.json` of `MUSTER_HOME`, or of the nearest `.muster/` upward; else empty."""
    home = environment.get("MUSTER_HOME")
    places = [Path(home) / STATE_FILE.name] if home else []
    places += [one / STATE_FILE for one in (folder, *folder.parents)]
    for path in places:
        if path.is_file():
            state: dict[str, Any] = json.loads(path.read_text())
            return state
    return {}
