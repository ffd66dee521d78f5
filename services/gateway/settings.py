"""Settings of the gateway beside those of every service."""

from __future__ import annotations

import resource
from dataclasses import replace
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from services.gateway.http.connections import ConnectionLimits, networks_of
from services.gateway.http.kubernetes_subjects import named_subjects
from services.gateway.http.read_cost import ReadLimits
from shared.core.notifications.addresses import Network
from shared.core.notifications.addresses import networks_of as notification_networks
from shared.ports.kafka_access import KafkaAccess, TopicSettings, UserQuota
from shared.runtime.settings import Settings
from shared.runtime.trimming import RETENTION_DAYS_MIN

ROLES = frozenset(("http", "projection"))


class GatewaySettings(Settings, TopicSettings):
    """What a gateway process must be told."""

    gateway_roles: str = Field(
        default="http,projection", description="what this process does: http, projection, or both"
    )
    gateway_shard: int = Field(
        default=0, ge=0, description="outbox shard of this HTTP process; one process for each"
    )
    bootstrap_key: SecretStr = Field(
        default=SecretStr(""), description="an operator's API key that shall exist from the start"
    )
    admin_key_file: str = Field(
        default="", description="file with an operator's API key; written when it does not exist"
    )
    key_pepper: SecretStr = Field(
        default=SecretStr("muster"), description="key of the hash under which API keys are stored"
    )
    requests_per_second_max: int = Field(
        default=10_000, ge=0, description="submissions of one team per second; 0: no limit"
    )
    waiting_requests_max: int = Field(
        default=4_000, ge=1, description="requests that may wait for their commit; then 429"
    )
    keep_events_days: int = Field(
        default=14,
        ge=RETENTION_DAYS_MIN,
        description="events, and requests whose workload has ended, are kept so long",
    )
    keep_usage_days: int = Field(
        default=400, ge=RETENTION_DAYS_MIN, description="GPU-hours of days are kept so long"
    )
    cluster: Literal["simulated", "kubernetes"] = Field(
        default="simulated",
        description="where pods run, as the binder is told; logs are read from an API server "
        "(MUSTER_KUBE_*)",
    )
    logs_bytes_max: int = Field(
        default=64 << 20,
        ge=1,
        description="bytes that one reader of logs, or of a command in a pod, is told",
    )
    logs_seconds_max: int = Field(
        default=21_600, ge=1, description="seconds for which one request follows logs"
    )
    exec_seconds_max: int = Field(
        default=3_600, ge=1, description="seconds for which one command is followed in a pod"
    )
    kubernetes_login: bool = Field(
        default=False,
        description="take bearer tokens of the cluster (MUSTER_KUBE_*) beside API keys: its"
        " TokenReview says whose they are, documents of teams say what their users may",
    )
    kubernetes_audience: str = Field(
        default="",
        description="audience that such a token must be made for; empty: the API server's own, as"
        " tokens of kubeconfig files are",
    )
    kubernetes_operators: str = Field(
        default="",
        description="users and groups of the cluster that are operators here, such as"
        " group:platform,user:alice; comma-separated",
    )
    notification_networks: str = Field(
        default="",
        description="networks that are not public and into which notifications may be sent,"
        " comma-separated; there by http and to any port, too",
    )
    streams_max: int = Field(
        default=1_000, ge=0, description="open streams of events, logs and commands in pods"
    )
    team_streams_max: int = Field(
        default=200,
        ge=0,
        description="open streams of one team's keys; those of operators count as one team",
    )
    connections_max: int = Field(
        default=0, ge=0, description="open connections; 0: three quarters of the descriptors"
    )
    peer_connections_percent: int = Field(
        default=25,
        ge=1,
        le=100,
        description="share of them that one address may have, or one IPv6 network of 64 bits",
    )
    shared_peers: str = Field(
        default="127.0.0.0/8,::1",
        description="addresses or networks of which one stands for many users, such as proxies,"
        " comma-separated; their connections are limited by connections_max alone",
    )
    key_read_tokens_per_second: int = Field(
        default=200,
        ge=0,
        description="what the reads of one key may cost, in tokens of about a millisecond of this"
        " process: 1 for a small read, 4 for a page of 100 workloads, 5 for a stream's opening;"
        " 0: no limit",
    )
    team_read_tokens_per_second: int = Field(
        default=300,
        ge=0,
        description="the same for all keys of one team; those of operators count as one team",
    )
    team_reads_in_hand_max: int = Field(
        default=3,
        ge=0,
        description="reads of one team at once; further ones wait their turn; 0: no limit",
    )
    kafka_admin_user: str = Field(
        default="",
        description="Kafka principal that makes topics, users and rules for teams; empty: topics "
        "only, as kafka_user",
    )
    kafka_admin_password: SecretStr = Field(default=SecretStr(""), description="its password")
    team_write_bytes_per_second: int = Field(
        default=2 << 20,
        ge=0,
        description="what a team's Kafka user may write to each broker; 0: no limit",
    )
    team_read_bytes_per_second: int = Field(
        default=8 << 20, ge=0, description="what it may read from each broker; 0: no limit"
    )
    team_request_percent: int = Field(
        default=50,
        ge=0,
        description="what its requests may take of a broker's threads, in percent of one thread;"
        " 0: no limit",
    )
    team_topic_bytes_max: int = Field(
        default=1 << 30,
        ge=0,
        description="what each of a team's topics keeps, the oldest go first, read or not; 0: no"
        " limit but its hours",
    )

    @property
    def networks(self) -> tuple[Network, ...]:
        """Into which notifications may be sent although they are not public."""
        return notification_networks(self.notification_networks)

    @property
    def kafka_admin(self) -> KafkaAccess:
        """The login that makes what teams need on the broker."""
        if not self.kafka_admin_user:
            return self.kafka
        return replace(self.kafka, user=self.kafka_admin_user, password=self.kafka_admin_password)

    @property
    def connection_limits(self) -> ConnectionLimits:
        """Of the HTTP server; files, broker, database and pods have the other descriptors."""
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = self.connections_max or descriptors * 3 // 4
        return ConnectionLimits(
            most=most,
            of_peer=max(1, most * self.peer_connections_percent // 100),
            shared=networks_of(self.shared_peers),
        )

    @property
    def team_quota(self) -> UserQuota:
        """Of each team's user on the broker."""
        return UserQuota(
            write_bytes_per_second=self.team_write_bytes_per_second,
            read_bytes_per_second=self.team_read_bytes_per_second,
            request_percent=self.team_request_percent,
        )

    @property
    def read_limits(self) -> ReadLimits:
        """Of keys and teams."""
        return ReadLimits(
            key_tokens=self.key_read_tokens_per_second,
            team_tokens=self.team_read_tokens_per_second,
            in_hand=self.team_reads_in_hand_max,
        )

    @field_validator("kubernetes_operators")
    @classmethod
    def _operators(cls, text: str) -> str:
        """Every one is a user or a group."""
        named_subjects(text)
        return text

    @field_validator("shared_peers")
    @classmethod
    def _networks(cls, text: str) -> str:
        """Every one is an address or a network."""
        networks_of(text)
        return text

    @field_validator("notification_networks")
    @classmethod
    def _private_networks(cls, text: str) -> str:
        """Every one is an address or a network."""
        notification_networks(text)
        return text

    @field_validator("gateway_roles")
    @classmethod
    def _known_roles(cls, text: str) -> str:
        """Only known roles, at least one."""
        roles = {one.strip() for one in text.split(",") if one.strip()}
        if not roles or not roles <= ROLES:
            raise ValueError(f"must be of {sorted(ROLES)}, not {text!r}")
        return ",".join(sorted(roles))
