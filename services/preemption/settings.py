"""Settings that only preemption has (prefix `MUSTER_`)."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.preemption.moving import MOVES_PER_HOUR


class PreemptionSettings(BaseSettings):
    """What preemption may do by itself."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    moves_per_hour: int = Field(
        default=MOVES_PER_HOUR,
        ge=0,
        description="workloads of a cell moved to make whole nodes for others; 0: none",
    )
