"""Settings that only the binder has (prefix `MUSTER_`)."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class BinderSettings(BaseSettings):
    """Where the cluster is."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    cluster: Literal["simulated", "kubernetes"] = Field(
        default="simulated",
        description="where pods run: the simulated cluster, or an API server (MUSTER_KUBE_*)",
    )
    cluster_url: str = Field(default="", description="URL of the simulated cluster")

    @model_validator(mode="after")
    def _simulated_has_url(self) -> Self:
        if self.cluster == "simulated" and not self.cluster_url:
            message = "MUSTER_CLUSTER_URL must be set where MUSTER_CLUSTER is simulated"
            raise ValueError(message)
        return self
