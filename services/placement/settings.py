"""Settings that only placement has (prefix `MUSTER_`)."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.placement.heads import HEAD_AFTER_HOURS


class PlacementSettings(BaseSettings):
    """What placement may do by itself."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    mig_switch_seconds: int = Field(
        default=0,
        ge=0,
        description="between two switches of an idle GPU into or out of MIG mode; 0: never",
    )
    head_after_hours: int = Field(
        default=HEAD_AFTER_HOURS,
        ge=1,
        description="who waits longer is at the head, whatever its priority, share and width",
    )
