"""Users and grants on the broker, by librdkafka: aiokafka has no such calls.

`python -m shared.adapters.kafka.administration apply` makes the grants of the topic table so and
sets the passwords that are given to it (`role=password` lines on standard input); `wait` in the
place of `apply` returns when the broker lets the user in. Every call is idempotent, blocks in a
thread and, but for `wait`, is bounded.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from time import monotonic, sleep
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AdminClient,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pydantic import SecretStr

from shared.adapters.kafka.admin_client import (
    POLL_SECONDS,
    Administration,
    is_unknown_user,
    rule_of,
    settings_of,
)
from shared.adapters.kafka.client import refusal
from shared.events.grants import (
    Grant,
    grants,
    grants_of_team,
    principal_of,
    principal_of_team,
)
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess, KafkaSettings

ITERATIONS: Final = 4096
"""Passwords here are made by a generator, so more rounds would only slow every connection."""
KNOWN_SECONDS: Final = 15.0
PAUSE_SECONDS: Final = 2.0


async def make_grants_so(access: KafkaAccess, wanted: Iterable[Grant]) -> None:
    """Give the grants that are wanted, and take all others on exactly these topics.

    Raises:
        Transient: the broker cannot be reached, or refuses.
    """
    await asyncio.to_thread(_make_grants_so, access, frozenset(wanted))


async def admit_team(access: KafkaAccess, team: str, prefix: str) -> None:
    """Give a team its grants; the broker knows them when it returns. Raises Transient."""
    await asyncio.to_thread(_make_grants_so, access, grants_of_team(team, prefix))


async def dismiss_team(access: KafkaAccess, team: str, prefix: str) -> None:
    """Take everything from a team's user, and the user; harmless when there is none.

    Raises:
        Transient: the broker cannot be reached, or refuses.
    """
    await asyncio.to_thread(_dismiss, access, principal_of_team(team, prefix))


async def set_passwords(access: KafkaAccess, passwords: Mapping[str, SecretStr]) -> None:
    """Make these users, or give them these passwords; they can log in when it returns.

    Raises:
        Transient: the broker cannot be reached, or refuses.
    """
    await asyncio.to_thread(_set_passwords, access, passwords)
    for user, password in passwords.items():
        await _wait_until_admitted(replace(access, user=user, password=password))


async def _wait_until_admitted(access: KafkaAccess) -> None:
    deadline = monotonic() + KNOWN_SECONDS
    while reason := await refusal(access):
        if monotonic() > deadline:
            raise Transient(f"the new password is not known in {KNOWN_SECONDS} s:{reason}")
        await asyncio.sleep(POLL_SECONDS)


def broker_count(access: KafkaAccess, seconds: float) -> int:
    """Brokers that are registered; 0 as long as none answers."""
    try:
        return len(AdminClient(settings_of(access)).list_topics(timeout=seconds).brokers)
    except KafkaException:
        return 0


def _make_grants_so(access: KafkaAccess, wanted: frozenset[Grant]) -> None:
    rules = {rule_of(one) for one in wanted}
    names = {one.name for one in rules}
    places = {_place(one) for one in rules if one.restype is ResourceType.TOPIC}
    administration = Administration(access)

    def found() -> set[AclBinding]:
        there = {one for name in names for one in administration.found(name=name)}
        return {one for one in there if one in rules or _place(one) in places}

    there = found()
    administration.create(rules - there)
    administration.delete(there - rules)
    _wait_until_known(lambda: found() == rules)


def _place(rule: AclBinding) -> tuple[Any, ...]:
    return (rule.restype, rule.name, rule.resource_pattern_type)


def _dismiss(access: KafkaAccess, user: str) -> None:
    administration = Administration(access)
    principal = f"User:{user}"
    administration.delete(administration.found(principal=principal))
    try:
        administration.alter([UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512)])
    except Transient as error:
        if not is_unknown_user(error):
            raise
    _wait_until_known(
        lambda: not administration.found(principal=principal) and not administration.has_user(user)
    )


def _wait_until_known(is_so: Callable[[], bool]) -> None:
    """The controller has accepted a change; return when the broker itself goes by it.

    Raises:
        Transient: not in `KNOWN_SECONDS`.
    """
    deadline = monotonic() + KNOWN_SECONDS
    while not is_so():
        if monotonic() > deadline:
            raise Transient(f"the broker does not know its new rules in {KNOWN_SECONDS} s")
        sleep(POLL_SECONDS)


def _set_passwords(access: KafkaAccess, passwords: Mapping[str, SecretStr]) -> None:
    form = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    Administration(access).alter(
        [
            UserScramCredentialUpsertion(user, form, password.get_secret_value().encode())
            for user, password in passwords.items()
        ]
    )


async def _apply(access: KafkaAccess, prefix: str, passwords: Mapping[str, SecretStr]) -> None:
    await make_grants_so(access, grants(prefix))
    await set_passwords(access, passwords)


async def wait_for_login(access: KafkaAccess) -> None:
    """Return when the broker lets this user in; each new reason why not is told on stderr."""
    told = ""
    while reason := await refusal(access):
        if reason != told:
            sys.stderr.write(f"waiting for the broker{reason}\n")
        told = reason
        await asyncio.sleep(PAUSE_SECONDS)


def main() -> None:
    """Apply the table to the broker of MUSTER_KAFKA_BOOTSTRAP, as a user with that right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["apply", "wait"])
    if parser.parse_args().action == "wait":
        asyncio.run(wait_for_login(KafkaSettings().kafka))
        return
    lines = [line.strip().partition("=") for line in sys.stdin if line.strip()]
    passwords = {principal_of(role): SecretStr(password) for role, _, password in lines}
    prefix = os.environ.get("MUSTER_TOPIC_PREFIX", "muster")
    asyncio.run(_apply(KafkaSettings().kafka, prefix, passwords))


if __name__ == "__main__":
    main()
