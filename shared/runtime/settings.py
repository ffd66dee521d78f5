"""Settings of every service, from the environment (prefix `MUSTER_`) or a secrets folder."""

from __future__ import annotations

from pydantic import Field

from shared.ports.kafka_access import KafkaSettings
from shared.runtime.trimming import RETENTION_DAYS_MIN


class Settings(KafkaSettings):
    """What a process must be told. docs/settings.md is generated from these descriptions."""

    database_url: str = Field(description="PostgreSQL URL with the role of this service")
    slot: str = Field(
        default="local",
        description="stable name of this process as lease holder; two have never the same",
    )
    cell: int = Field(default=0, ge=0, description="cell that this process serves")
    topic_prefix: str = Field(default="muster", description="first part of every topic name")
    http_host: str = Field(default="127.0.0.1", description="address for health and metrics")
    http_port: int = Field(default=0, ge=0, description="port for health and metrics; 0: none")
    batch_messages_max: int = Field(default=2000, ge=1, description="messages in a unit of work")
    niceness: int = Field(
        default=0,
        ge=0,
        le=19,
        description="added once started: a service that shows work waits for one that decides",
    )
    lease_seconds: float = Field(default=5.0, gt=0, description="time to live of a lease")
    stuck_seconds: float = Field(
        default=15.0, gt=0, description="without progress for so long, the process exits with 70"
    )
    exit_on_decision_error: bool = Field(
        default=False,
        description="a decision that raises ends the process, instead of setting its message aside"
        " after three tries",
    )
    keep_workloads_days: int = Field(
        default=30,
        ge=RETENTION_DAYS_MIN,
        description="a workload is forgotten so long after its end",
    )
    mig_switch_seconds: int = Field(
        default=0,
        ge=0,
        description="between two switches of an idle GPU into or out of MIG mode; 0: never",
    )
    failpoints: str = Field(
        default="",
        description="for tests: name:probability:kill|raise|sleep=SECONDS, comma-separated",
    )
    seed: int = Field(default=0, description="seed of failpoints and of ties in placement")
    log_level: str = Field(default="info", description="debug, info, warning or error")
