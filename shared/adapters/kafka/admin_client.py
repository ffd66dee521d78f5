"""One connection to the broker's administration, by librdkafka: rules and passwords, call by call.

Every call waits for its answer, is bounded in time, and says why there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from time import monotonic
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
)

from shared.adapters.kafka.client import MECHANISM
from shared.events.grants import Grant, Resource
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess

CALL_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.02
REASON_LENGTH_MAX: Final = 200
EVERYWHERE: Final = "*"
_KINDS: Final = {
    Resource.TOPIC: ResourceType.TOPIC,
    Resource.GROUP: ResourceType.GROUP,
    Resource.CLUSTER: ResourceType.BROKER,  # librdkafka's name for number 4 of Kafka's protocol
}


class Administration:
    """An admin client with calls that wait for their answer, and say why there is none."""

    def __init__(self, access: KafkaAccess) -> None:
        self._access = access
        self._refusal = ""
        self._client = AdminClient(settings_of(access) | {"error_cb": self._note})

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
            if is_unknown_user(error):
                return False
            raise

    def alter(self, changes: Sequence[Any]) -> None:
        """Set or forget passwords."""
        answers = self._client.alter_user_scram_credentials(changes, request_timeout=CALL_SECONDS)
        self._wait_all(answers)

    def configure(self, resources: Sequence[Any]) -> None:
        """Change some configuration of resources, each by its own entries."""
        answers = self._client.incremental_alter_configs(resources, request_timeout=CALL_SECONDS)
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


def rule_of(grant: Grant) -> AclBinding:
    """A grant as the broker keeps it."""
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


def settings_of(access: KafkaAccess) -> dict[str, Any]:
    """What every client of librdkafka begins with: address and login."""
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


def is_unknown_user(error: Transient) -> bool:
    """Whether the broker answered that it has no such user."""
    cause = error.__cause__
    return (
        isinstance(cause, KafkaException) and cause.args[0].code() == KafkaError.RESOURCE_NOT_FOUND
    )


def _reason(error: Exception) -> str:
    if not isinstance(error, KafkaException):
        return "no answer in time"
    return f"{error.args[0].name()}: {error.args[0].str()[:REASON_LENGTH_MAX]}"


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
