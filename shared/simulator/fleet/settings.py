"""Settings of the simulated fleet, from the environment (prefix `MUSTER_`)."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from shared.ports.kafka_access import KafkaSettings
from shared.simulator.fleet.description import NODES_DEFAULT


class FleetSettings(KafkaSettings):
    """What the process must be told."""

    topic_prefix: str = Field(default="muster", description="first part of every topic name")
    cell: int = Field(default=0, ge=0, description="cell that the nodes belong to")
    http_host: str = Field(default="127.0.0.1", description="address for health and failures")
    http_port: int = Field(default=8091, ge=0, description="port for health and failures")
    cluster_url: str = Field(default="", description="URL of the simulated cluster, if any")
    fleet_file: Path | None = Field(default=None, description="JSON or YAML file of the fleet")
    fleet_nodes: int = Field(default=NODES_DEFAULT, ge=1, description="nodes without a file")
    fleet_seed: int = Field(default=0, description="seed of uuids and use")
    fleet_usage_seconds: float = Field(default=10.0, gt=0, description="between reports of use")
    fleet_usage_rate: int = Field(default=200, ge=1, description="reports of use per second")
    fleet_follow_seconds: float = Field(
        default=30.0, gt=0, description="between looks at the cluster for what runs where"
    )
