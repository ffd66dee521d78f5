"""Settings of a node agent, from the environment (prefix `MUSTER_`)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from shared.ports.kafka_access import KafkaSettings
from shared.runtime.reporter import Telling


class AgentSettings(KafkaSettings):
    """What the process must be told."""

    topic_prefix: str = Field(default="muster", description="first part of every topic name")
    cell: int = Field(default=0, ge=0, description="cell that the node belongs to")
    http_host: str = Field(default="127.0.0.1", description="address for health and metrics")
    http_port: int = Field(default=0, ge=0, description="port for health and metrics; 0: none")
    node_description: Path = Field(description="JSON or YAML file that describes this node")
    gpu_probe: Literal["described", "nvml"] = Field(
        default="described",
        description="where GPUs are read from: the description, or NVML (extra `agent`)",
    )
    agent_reports: Telling = Field(
        default=Telling.ALL,
        description="gpus where the cluster watcher reports what the nodes are: health, links and"
        " use of their GPUs; usage: use alone",
    )
    usage_seconds: float = Field(default=5.0, gt=0, description="between reports of use")
