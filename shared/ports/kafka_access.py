"""How a process reaches Kafka: address, security protocol, user and password.

`KafkaSettings` reads it from the environment; every client is made from a `KafkaAccess`. The
password is a secret type: no log line, traceback or repr shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class SecurityProtocol(StrEnum):
    """Kafka's own names: with TLS or without, with a user (SCRAM-SHA-512) or without."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_user(self) -> bool:
        """Whether a user logs in."""
        return self.startswith("SASL_")

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS is spoken."""
        return self.endswith("SSL")


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaAccess:
    """An address (`host:port`) and a login; no user: anonymous."""

    bootstrap: str
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    user: str = ""
    password: SecretStr = field(default=SecretStr(""))
    ca_file: str = ""

    def variables(self) -> dict[str, str]:
        """The environment by which a process is told this; the other way of `KafkaSettings`."""
        return {
            "MUSTER_KAFKA_BOOTSTRAP": self.bootstrap,
            "MUSTER_KAFKA_SECURITY_PROTOCOL": self.protocol.value,
            "MUSTER_KAFKA_USER": self.user,
            "MUSTER_KAFKA_PASSWORD": self.password.get_secret_value(),
            "MUSTER_KAFKA_CA_FILE": self.ca_file,
        }


def access_of(variables: Mapping[str, str]) -> KafkaAccess:
    """What `KafkaAccess.variables` has told; what is missing has its default."""
    return KafkaAccess(
        bootstrap=variables["MUSTER_KAFKA_BOOTSTRAP"],
        protocol=SecurityProtocol(
            variables.get("MUSTER_KAFKA_SECURITY_PROTOCOL", SecurityProtocol.PLAINTEXT)
        ),
        user=variables.get("MUSTER_KAFKA_USER", ""),
        password=SecretStr(variables.get("MUSTER_KAFKA_PASSWORD", "")),
        ca_file=variables.get("MUSTER_KAFKA_CA_FILE", ""),
    )


def problems(error: ValidationError) -> str:
    """What is wrong with settings, each with its field where it is of one, in one line."""
    told = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors()]
    return "; ".join(f"{field}: {message}" if field else message for field, message in told)


@dataclass(frozen=True, slots=True)
class TopicCopies:
    """How many brokers have a record of a topic, and how many before it is acknowledged."""

    replication: int = 1
    min_insync: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UserQuota:
    """What all connections of one user may take of each broker; 0: no limit."""

    write_bytes_per_second: int = 0
    read_bytes_per_second: int = 0
    request_percent: int = 0
    """Of one thread's time; 200 are two threads."""


class KafkaSettings(BaseSettings):
    """What every process that talks to Kafka must be told."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    kafka_bootstrap: str = Field(description="host:port of a Kafka broker")
    kafka_security_protocol: SecurityProtocol = Field(
        default=SecurityProtocol.PLAINTEXT,
        description="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; SASL is SCRAM-SHA-512",
    )
    kafka_user: str = Field(default="", description="Kafka principal of this process, with SASL")
    kafka_password: SecretStr = Field(default=SecretStr(""), description="its password")
    kafka_ca_file: str = Field(
        default="",
        description="PEM file of the brokers' certificate authority; empty: system's",
    )

    @model_validator(mode="after")
    def _user_goes_with_sasl(self) -> Self:
        """A password that would not be used, or that is missing, is told at the start."""
        if self.kafka_security_protocol.has_user != bool(self.kafka_user):
            raise ValueError("kafka_user is wanted with a SASL security protocol, and only then")
        return self

    @property
    def kafka(self) -> KafkaAccess:
        """What a client is made from."""
        return KafkaAccess(
            bootstrap=self.kafka_bootstrap,
            protocol=self.kafka_security_protocol,
            user=self.kafka_user,
            password=self.kafka_password,
            ca_file=self.kafka_ca_file,
        )


class TopicSettings(KafkaSettings):
    """What a process that makes topics must be told beside."""

    topic_replication: int = Field(
        default=1, ge=1, description="brokers that have each topic which is made from now on"
    )
    topic_min_insync_replicas: int = Field(
        default=1,
        ge=1,
        description="brokers that must have a record before it is acknowledged, of those with the"
        " topic; 2 of 3 survive the loss of one",
    )

    @model_validator(mode="after")
    def _as_many_as_there_are(self) -> Self:
        """More than there are would refuse every record."""
        if self.topic_min_insync_replicas > self.topic_replication:
            raise ValueError(
                f"topic_min_insync_replicas is {self.topic_min_insync_replicas}, and must be at"
                f" most topic_replication, which is {self.topic_replication}"
            )
        return self

    @property
    def topic_copies(self) -> TopicCopies:
        """Of each topic that is made."""
        return TopicCopies(self.topic_replication, self.topic_min_insync_replicas)
