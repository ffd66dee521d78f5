"""Users and grants on the broker, by librdkafka: aiokafka has no such calls.

`python -m shared.adapters.kafka_administration apply` makes the grants of the topic table so and
sets the passwords that are given to it (`role=password` lines on standard input). Every call is
idempotent, blocks in a thread and is bounded.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import replace
from time import monotonic, sleep
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pydantic import SecretStr

from shared.adapters.kafka_client import MECHANISM, refusal
from shared.events.grants import (
    Grant,
    Resource,
    grants,
    grants_of_team,
    principal_of,
    principal_of_team,
)
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess, KafkaSettings

ITERATIONS: Final = 4096
"""Passwords here are made by a generator, so more rounds would only slow every connection."""
CALL_SECONDS: Final = 10.0
KNOWN_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.02
REASON_LENGTH_MAX: Final = 200
EVERYWHERE: Final = "*"


async def make_grants_so(access: KafkaAccess, wanted: Iterable[Grant]) -> None:
    """Give what is wanted, and take what else somebody may on exactly these topics.

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
    """Brokers that are registered; 0 as long as nobody answers."""
    try:
        return len(AdminClient(_settings(access)).list_topics(timeout=seconds).brokers)
    except KafkaException:
        return 0


class _Administration:
    """An admin client whose calls wait for their answer, and say why there is none."""

    def __init__(self, access: KafkaAccess) -> None:
        self._access = access
        self._refusal = ""
        self._client = AdminClient(_settings(access) | {"error_cb": self._note})

    def _note(self, error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:  # noqa: SLF001  # librdkafka's name for it
            self._refusal = error.str()

    def found(self, *, name: str | None = None, principal: str | None = None) -> set[AclBinding]:
        """The rules about one name, or of one principal."""
        wanted = _filter(name=name, principal=principal)
        return set(self._wait(self._client.describe_acls(wanted, request_timeout=CALL_SECONDS)))

    def create(self, rules: Iterable[AclBinding]) -> None:
        """Add rules; one that is there already is no error."""
        missing = list(rules)
        if missing:
            answers = self._client.create_acls(missing, request_timeout=CALL_SECONDS)
            self._wait_all(answers)

    def delete(self, rules: Iterable[AclBinding]) -> None:
        """Take rules away."""
        filters = [_exactly(one) for one in rules]
        if filters:
            self._wait_all(self._client.delete_acls(filters, request_timeout=CALL_SECONDS))

    def has_user(self, user: str) -> bool:
        """Whether the broker has a password of this user."""
        answer = self._client.describe_user_scram_credentials([user])[user]
        try:
            return bool(self._wait(answer).scram_credential_infos)
        except Transient as error:
            if _is_unknown_user(error):
                return False
            raise

    def alter(self, changes: Sequence[Any]) -> None:
        """Set or forget passwords."""
        answers = self._client.alter_user_scram_credentials(changes, request_timeout=CALL_SECONDS)
        self._wait_all(answers)

    def _wait_all(self, answers: Mapping[Any, Future[Any]]) -> None:
        for answer in answers.values():
            self._wait(answer)

    def _wait(self, answer: Future[Any]) -> Any:  # noqa: ANN401  # what the call answers
        deadline = monotonic() + 2 * CALL_SECONDS
        while not answer.done() and not self._refusal and monotonic() < deadline:
            self._client.poll(POLL_SECONDS)
        try:
            return answer.result(timeout=0)
        except (KafkaException, FutureTimeoutError) as error:
            reason = self._refusal or _reason(error)
            who = f"{self._access.user or 'nobody'} at {self._access.bootstrap}"
            raise Transient(f"administration of Kafka as {who}: {reason}") from error


def _reason(error: Exception) -> str:
    if not isinstance(error, KafkaException):
        return "no answer in time"
    return f"{error.args[0].name()}: {error.args[0].str()[:REASON_LENGTH_MAX]}"


def _settings(access: KafkaAccess) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": access.bootstrap,
        "security.protocol": access.protocol.value,
        "log_level": 0,
    }
    if access.protocol.has_user:
        settings["sasl.mechanism"] = MECHANISM
        settings["sasl.username"] = access.user
        settings["sasl.password"] = access.password.get_secret_value()
    if access.ca_file:
        settings["ssl.ca.location"] = access.ca_file
    return settings


def _make_grants_so(access: KafkaAccess, wanted: frozenset[Grant]) -> None:
    rules = {_rule(one) for one in wanted}
    names = {one.name for one in rules}
    places = {_place(one) for one in rules if one.restype is ResourceType.TOPIC}
    administration = _Administration(access)

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
    administration = _Administration(access)
    principal = f"User:{user}"
    administration.delete(administration.found(principal=principal))
    try:
        administration.alter([UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512)])
    except Transient as error:
        if not _is_unknown_user(error):
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


def _is_unknown_user(error: Transient) -> bool:
    cause = error.__cause__
    return (
        isinstance(cause, KafkaException) and cause.args[0].code() == KafkaError.RESOURCE_NOT_FOUND
    )


def _set_passwords(access: KafkaAccess, passwords: Mapping[str, SecretStr]) -> None:
    form = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    _Administration(access).alter(
        [
            UserScramCredentialUpsertion(user, form, password.get_secret_value().encode())
            for user, password in passwords.items()
        ]
    )


def _rule(grant: Grant) -> AclBinding:
    literal, prefixed = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
    return AclBinding(
        restype=_KINDS[grant.resource],
        name=grant.name,
        resource_pattern_type=prefixed if grant.prefixed else literal,
        principal=f"User:{grant.principal}",
        host=EVERYWHERE,
        operation=AclOperation[grant.operation.value],
        permission_type=AclPermissionType.ALLOW,
    )


_KINDS: Final = {
    Resource.TOPIC: ResourceType.TOPIC,
    Resource.GROUP: ResourceType.GROUP,
    Resource.CLUSTER: ResourceType.BROKER,  # librdkafka's name for number 4 of Kafka's protocol
}


def _filter(*, name: str | None, principal: str | None) -> AclBindingFilter:
    return AclBindingFilter(
        restype=ResourceType.ANY,
        name=name,
        resource_pattern_type=ResourcePatternType.ANY,
        principal=principal,
        host=None,
        operation=AclOperation.ANY,
        permission_type=AclPermissionType.ANY,
    )


def _exactly(rule: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        restype=rule.restype,
        name=rule.name,
        resource_pattern_type=rule.resource_pattern_type,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission_type,
    )


async def _apply(access: KafkaAccess, prefix: str, passwords: Mapping[str, SecretStr]) -> None:
    await make_grants_so(access, grants(prefix))
    await set_passwords(access, passwords)


def main() -> None:
    """Apply the table to the broker of MUSTER_KAFKA_BOOTSTRAP, as a user who may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=["apply"])
    parser.parse_args()
    lines = [line.strip().partition("=") for line in sys.stdin if line.strip()]
    passwords = {principal_of(role): SecretStr(password) for role, _, password in lines}
    prefix = os.environ.get("MUSTER_TOPIC_PREFIX", "muster")
    asyncio.run(_apply(KafkaSettings().kafka, prefix, passwords))


if __name__ == "__main__":
    main()
