"""Settings that only the binder has (prefix `MUSTER_`)."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class BinderSettings(BaseSettings):
    """Where the cluster is."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    cluster_url: str = Field(description="URL of the simulated cluster")
