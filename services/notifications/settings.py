"""Settings that only the notifications service has (prefix `MUSTER_`)."""

from __future__ import annotations

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.core.notifications.addresses import networks_of


class NotificationSettings(BaseSettings):
    """Where may be sent to, with which secrets, and how often."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    notification_networks: str = Field(
        default="",
        description="networks that are not public and into which notifications may be sent,"
        " comma-separated; there by http and to any port, too",
    )
    notification_secrets: str = Field(
        default="",
        description="folder with a file for each secret that a Notification names: its lines are"
        " keys that sign (whsec_...), the newest first, or one URL",
    )
    notification_timeout_seconds: float = Field(
        default=5.0, gt=0, description="so long one attempt to deliver may take"
    )
    notification_first_retry_seconds: float = Field(
        default=1.0, gt=0, description="pause after a failure; doubled with each further one"
    )
    notification_last_retry_seconds: float = Field(
        default=3_600.0, gt=0, description="the longest such pause"
    )
    notification_keep_seconds: float = Field(
        default=86_400.0, gt=0, description="a notice that is not taken is given up after so long"
    )
    notification_waiting_max: int = Field(
        default=100_000,
        ge=1,
        description="notices that may wait for one destination; further ones are given up",
    )

    @field_validator("notification_networks")
    @classmethod
    def _networks(cls, text: str) -> str:
        """Every one is an address or a network."""
        networks_of(text)
        return text
