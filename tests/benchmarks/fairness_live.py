"""A job of a fairness world while it lives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shared.core.model.amounts import Amount
from shared.core.model.nouns import Placement, Workload
from shared.core.queueing.nomination.pending import Pending
from tests.benchmarks.fairness_world import Job

Class = tuple[str, Amount, int]
"""Team, request, and length by powers of eight."""
NOT_TRIED: Final = "NotNominated"


@dataclass(slots=True)
class Live:
    """A job with what is left of it."""

    job: Job
    pending: Pending
    workload: Workload
    left_ms: int
    asked_ms: int
    """When it began to wait, the last time."""
    started_ms: int = 0
    run: int = 0
    placement: Placement | None = None
    owed_since: int | None = None
    obstacle: str = NOT_TRIED
    """Why nobody went for it, the last time that victims were looked for."""

    @property
    def kind(self) -> Class:
        """Equal requests of about equal length, as in the services: pins go by the end."""
        length = (self.left_ms // 1000).bit_length() // 3
        return self.job.team, self.pending.request, length
