"""Settings of the simulated cluster, from the environment (prefix `MUSTER_CLUSTER_`)."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.simulator.faults import Faults
from shared.simulator.pods import Timing


class ClusterSettings(BaseSettings):
    """What the process must be told."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_CLUSTER_", extra="ignore", frozen=True)

    state: Path = Field(description="folder of the store; made if it is not there")
    host: str = Field(default="127.0.0.1", description="address to listen on")
    port: int = Field(default=8090, ge=0, description="port to listen on; 0: any free one")
    start_delay_seconds: float = Field(default=0.5, ge=0, description="from bound to running")
    stop_delay_seconds: float = Field(default=0.5, ge=0, description="from deleted to gone")
    pull_seconds: float = Field(default=0.0, ge=0, description="an image is pulled for so long")
    speed: float = Field(default=1.0, gt=0, description="pods end so many times sooner")
    seed: int = Field(default=0, description="seed of uids and faults")
    window_events: int = Field(default=50_000, ge=1, description="events a watch can start from")
    heartbeat_seconds: float = Field(default=5.0, gt=0, description="between lines of a watch")
    reply_lost: float = Field(default=0.0, description="probability: executed, no answer")
    conflict: float = Field(default=0.0, description="probability: 409, not tried")
    throttled: float = Field(default=0.0, description="probability: 429, not tried")
    broken: float = Field(default=0.0, description="probability: 500, not tried")
    watch_dropped: float = Field(default=0.0, description="probability: a watch breaks")
    kubelet_refuses: float = Field(default=0.0, description="probability: a bound pod is refused")
    cannot_pull: float = Field(default=0.0, description="probability: an image is not pulled yet")
    cannot_create: float = Field(default=0.0, description="probability: a container never starts")

    def timing(self) -> Timing:
        """Delays of the simulated kubelet."""
        return Timing(
            start_delay_ms=round(self.start_delay_seconds * 1000),
            stop_delay_ms=round(self.stop_delay_seconds * 1000),
            pull_ms=round(self.pull_seconds * 1000),
            speed=self.speed,
        )

    def faults(self) -> Faults:
        """Faults from the start on."""
        return Faults(**{name: getattr(self, name) for name in Faults.__struct_fields__})
