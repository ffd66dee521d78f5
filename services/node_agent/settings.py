"""Settings of a node agent, from the environment (prefix `MUSTER_`)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.ports.kafka_access import KafkaSettings
from shared.runtime.reporter import Telling


class SourceSettings(BaseSettings):
    """Where the devices of the node are read."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore")

    gpu_probe: Literal["described", "nvml", "dcgm"] = Field(
        default="described",
        description="where GPUs are read from: the description, NVML (extra `agent`), or a running"
        " dcgm-exporter",
    )
    dcgm_url: str = Field(
        default="http://127.0.0.1:9400/metrics", description="where that dcgm-exporter answers"
    )
    nvml_deadline_seconds: float = Field(
        default=0.0,
        ge=0,
        description="a call of NVML that takes longer counts as hanging; 0: three intervals"
        " between reports of use",
    )
    kernel_log: Path = Field(
        default=Path("/dev/kmsg"),
        description="where XIDs are read a second time, as NVML misses some; root may",
    )
    kubelet_socket: Path | None = Field(
        default=None,
        description="the kubelet's PodResources socket, so that device metrics tell pods (extra"
        " `agent`): /var/lib/kubelet/pod-resources/kubelet.sock; empty: none",
    )
    agent_hostname_label: Literal["hostname", "Hostname"] = Field(
        default="hostname",
        description="label of the node on device metrics; dashboards made before May 2026 have"
        " `Hostname`",
    )
    usage_seconds: float = Field(default=5.0, gt=0, description="between reports of use")


class AgentSettings(SourceSettings, KafkaSettings):
    """What the process must be told."""

    topic_prefix: str = Field(default="muster", description="first part of every topic name")
    cell: int = Field(default=0, ge=0, description="cell that the node belongs to")
    http_host: str = Field(default="127.0.0.1", description="address for health and metrics")
    http_port: int = Field(default=0, ge=0, description="port for health and metrics; 0: none")
    node_description: Path = Field(description="JSON or YAML file that describes this node")
    agent_reports: Telling = Field(
        default=Telling.ALL,
        description="gpus where the cluster watcher reports what the nodes are: health, links and"
        " use of their GPUs; usage: use alone",
    )
