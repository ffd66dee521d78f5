"""Settings that only the native service has (prefix `MUSTER_`)."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.adapters.kubernetes.label_keys import POOL_LABELS, Keys


class NativeSettings(BaseSettings):
    """Which labels choose nodes, and how long pods may be away."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    labels_pool: Keys = Field(
        default=POOL_LABELS, description="label keys of the pool that the node is dedicated to"
    )
    native_gone_seconds: float = Field(
        default=60.0,
        gt=0,
        description="a workload whose pods are all gone for so long is cancelled: their owner is"
        " gone, or makes none any more (at most five seconds where their object is deleted)",
    )
