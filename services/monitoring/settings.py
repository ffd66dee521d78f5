"""Settings that only monitoring has (prefix `MUSTER_`)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class MonitoringSettings(BaseSettings):
    """When more nodes are needed (docs/adr/0108)."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    node_start_seconds: int = Field(
        default=300,
        ge=0,
        le=3_600,
        description="so long a new node takes until it runs work; what is free sooner is no need",
    )
    warm_nodes: dict[str, Annotated[int, Field(ge=0, le=10_000)]] = Field(
        default_factory=dict,
        description="empty nodes that there should be by flavor, as a JSON object",
    )
