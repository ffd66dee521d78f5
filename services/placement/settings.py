"""Settings that only placement has (prefix `MUSTER_`)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.placement.backfill.heads import HEAD_AFTER_HOURS
from services.placement.unit.cell_state import START_SECONDS
from services.placement.workloads.silence import SILENT_SECONDS
from shared.core.health.breaker import DEFAULT_BREAKER
from shared.core.health.ladder import DEFAULT_LIMITS
from shared.core.nodes.shunning import DEFAULTS


class PlacementSettings(BaseSettings):
    """What placement may do by itself."""

    model_config = SettingsConfigDict(env_prefix="MUSTER_", extra="ignore", frozen=True)

    head_after_hours: int = Field(
        default=HEAD_AFTER_HOURS,
        ge=1,
        description="work that waits so long is at the head, whatever its priority and share",
    )
    start_seconds: int = Field(
        default=START_SECONDS,
        ge=1,
        description="bound but not running after so long: evicted and tried elsewhere",
    )
    silent_seconds: int = Field(
        default=SILENT_SECONDS,
        ge=1,
        description="nothing was heard of an attempt for so long: the binder is asked about it",
    )
    shun_seconds: int = Field(
        default=DEFAULTS.seconds,
        ge=0,
        description="first quarantine of a node on which work does not start; 0: none",
    )
    shun_seconds_max: int = Field(
        default=DEFAULTS.seconds_max,
        ge=1,
        description="... and at most, as the time doubles until something starts there",
    )
    shun_percent_max: int = Field(
        default=DEFAULTS.percent_max,
        ge=1,
        le=100,
        description="of the nodes of a flavor in quarantine at once; one may be, never all",
    )
    health_mode: Literal["observe", "act"] = Field(
        default="act",
        description="act: a GPU that its driver reports as broken is drained by itself; observe:"
        " what would be done is told, and nothing is done",
    )
    health_probation_seconds: int = Field(
        default=DEFAULT_LIMITS.probation_ms // 1000,
        ge=1,
        description="so long a GPU takes no work after it was reset, and is healthy if nothing"
        " speaks against it meanwhile",
    )
    health_breaker_percent: int = Field(
        default=DEFAULT_BREAKER.percent_max,
        ge=0,
        le=100,
        description="of the GPUs of a flavor that rules may take out of service within an hour by"
        " themselves, eight at least; beyond it all is only told",
    )
    health_rules_file: Path | None = Field(
        default=None,
        description="YAML file with the site's own classes of XIDs, a list of `{xid, class}`;"
        " classes: note, app, slice, reset, memory, link, node, follow, check; empty: none",
    )
