"""The dominant cause of a wait: the one without which the workload would start first.

1. nothing of its queue is started                          the documents of now
2. what its queue owns is being taken back for it           reclaim.py
3. a promised start                                         as it was recorded
4. others own and use too much for it                       core.quota.attainable
5. others borrow what its queue owns                        reclaim.py
6. quota, of the tree of now                                core.quota.reasons
7. what was recorded
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from services.gateway.why.headline.reclaim import Reclaiming
from shared.core.model.decision import Reason, Refusal

PROMISED: Final = "promised_start_ms"
_BY_NUMBERS: Final = frozenset(
    (
        Reason.PENDING,
        Reason.WAITING_FOR_QUOTA,
        Reason.QUOTA_KEPT,
        Reason.BEHIND_HEAD,
    )
)
"""Reasons that the quota tree of now says better."""
_BY_QUOTA: Final = frozenset(
    (
        Reason.PENDING,
        Reason.WAITING_FOR_QUOTA,
        Reason.NO_CAPACITY,
        Reason.GANG_SHORT,
        Reason.TOPOLOGY,
    )
)
"""Reasons that matter no more where others use too much of what they own, or of what it owns."""


class Numbers(Protocol):
    """What the documents and numbers of now say of a workload that waits."""

    @property
    def stopped(self) -> Refusal | None: ...  # noqa: D102  # see Around

    @property
    def reclaiming(self) -> Reclaiming | None: ...  # noqa: D102  # see Around

    @property
    def beyond(self) -> Refusal | None: ...  # noqa: D102  # see Around

    @property
    def refusal(self) -> Refusal | None: ...  # noqa: D102  # see Around


def better(beside: Numbers, reason: Reason, evidence: Mapping[str, Any]) -> Refusal | None:
    """What is told instead of the `reason` that was recorded; None: that stands."""
    if beside.stopped is not None:
        return beside.stopped
    reclaim = beside.reclaiming if reason in _BY_QUOTA else None
    if reclaim is not None and reclaim.under_way:
        return reclaim.refusal
    if PROMISED in evidence:
        return None
    if reason in _BY_QUOTA and beside.beyond is not None:
        return beside.beyond
    if reclaim is not None:
        return reclaim.refusal
    return beside.refusal if reason in _BY_NUMBERS else None
