"""Settings of a node agent, from the environment (prefix `MUSTER_`)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.core.telemetry.thresholds import ThresholdLimits
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
    check_command: str = Field(
        default="",
        description="checks a GPU under load after its reset, before it takes work: {gpu} and"
        " {uuid} are filled in, exit code 0 is a pass (`dcgmi diag -r 2 -i {gpu}`); empty: only"
        " the time of its probation counts",
    )
    check_seconds: float = Field(
        default=900.0, gt=0, description="a check that takes longer has failed"
    )
    thresholds: str = Field(
        default="{}",
        description="what is too hot, too slow or too often, as a JSON object: hot_celsius,"
        " margin_celsius, hot_ms, overheated_ms, throttled_percent, throttled_percent_long,"
        " replays_per_hour, fan_celsius",
    )
    node_description: Path = Field(description="JSON or YAML file that describes this node")
    agent_reports: Telling = Field(
        default=Telling.ALL,
        description="gpus where the cluster watcher reports what the nodes are: health, links and"
        " use of their GPUs; usage: use alone",
    )

    @field_validator("thresholds")
    @classmethod
    def _is_known(cls, text: str) -> str:
        threshold_limits(text)
        return text

    @property
    def limits(self) -> ThresholdLimits:
        """The thresholds as the core takes them."""
        return threshold_limits(self.thresholds)


def threshold_limits(text: str) -> ThresholdLimits:
    """Of a JSON object.

    Raises:
        ValueError: it is none, or a field is unknown or no whole number; with the field.
    """
    try:
        return msgspec.json.decode(text, type=ThresholdLimits)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
