"""Settings of the Kubernetes adapter (prefix `MUSTER_KUBE_`)."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

LABEL_PATTERN = r"^[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$"


class KubernetesSettings(BaseSettings):
    """How the API server is reached, and what tells the pods of this Muster from others."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_KUBE_", extra="ignore", frozen=True)

    config: str = Field(
        default="",
        description="path of a kubeconfig file; empty: the service account of the pod",
    )
    context: str = Field(
        default="", description="context of the kubeconfig; empty: its current context"
    )
    instance: str = Field(
        default="default",
        pattern=LABEL_PATTERN,
        description="label value of this Muster's pods; differs where a cluster has several",
    )
    scheduler_name: str = Field(
        default="muster",
        pattern=LABEL_PATTERN,
        description="spec.schedulerName of the pods of others that this Muster binds",
    )
    user_id: int = Field(
        default=1000,
        ge=1,
        lt=1 << 31,
        description="user id that containers run as, and group id of their volumes",
    )
    requests_at_once: int = Field(
        default=64, ge=1, le=256, description="most requests to the API server at a time"
    )
