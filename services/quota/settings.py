"""Settings that only quota has (prefix `MUSTER_`)."""

from __future__ import annotations

from typing import Final

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.core.quota.usage_history import HALF_LIFE_MS, HALF_LIFE_MS_MAX

HOUR_MS: Final = 3_600_000


class QuotaSettings(BaseSettings):
    """How long use is held against a queue."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    usage_half_life_hours: int = Field(
        default=HALF_LIFE_MS // HOUR_MS,
        ge=1,
        le=HALF_LIFE_MS_MAX // HOUR_MS,
        description="what a queue used so long ago counts half in the order",
    )
