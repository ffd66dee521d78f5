"""Submissions: what is sent, and what is answered."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from services.gateway.http.views import Request, View
from shared.core.model.decision import FieldError
from shared.core.model.nouns import WorkloadSpec
from shared.core.model.reason import Reason
from shared.events.strict import ITEMS_MAX, strict

SpecRequest = strict(WorkloadSpec)
IdempotencyKey = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[ -~]+(?!\n)$")]
"""Python's `$` also matches before a last newline; its `\\Z` no reader of OpenAPI knows."""


class BatchItem(Request, frozen=True, kw_only=True):
    """One submission of a batch; the same key gives the same workload."""

    spec: SpecRequest  # type: ignore[valid-type]  # built at run time
    """The submission."""
    idempotency_key: IdempotencyKey | None = None
    """The same key gives the same workload; null: each is a new one."""


class BatchRequest(Request, frozen=True, kw_only=True):
    """Up to 1,000 submissions, accepted together or not at all."""

    items: Annotated[tuple[BatchItem, ...], Meta(min_length=1, max_length=ITEMS_MAX)]
    """The submissions, in the order in which they are to be queued."""


class Accepted(View, frozen=True, kw_only=True):
    """The submission is durable; `href` shows what becomes of it."""

    id: str
    team: str
    queue: str
    """Queue that was asked for; empty until the default is known."""
    name: str
    """Name of the workload."""
    state: str
    href: str
    replayed: bool
    """Whether the same key submitted it before; `state` is then that of now."""


class BatchAnswer(View, frozen=True, kw_only=True):
    """The answer to one submission of a batch: 202, or 422 where the key was used before."""

    id: str
    team: str
    queue: str
    """Queue that was asked for; empty until the default is known."""
    name: str
    """Name of the workload."""
    status: int
    """202: accepted; 422: its key was used for another submission."""
    state: str
    href: str
    replayed: bool
    """Whether the same key submitted it before; `state` is then that of now."""


class BatchAccepted(View, frozen=True, kw_only=True):
    """One answer for each item, in order."""

    items: tuple[BatchAnswer, ...]
    """One answer for each submission, in their order."""


class DryRun(View, frozen=True, kw_only=True):
    """What would become of the submission; nothing was changed."""

    dry_run: bool
    """Always true: nothing was changed."""
    valid: bool
    """Whether it would be queued."""
    state: str
    """State that it would have: queued or rejected."""
    queue: str
    priority: int
    reason: Reason
    message: str
    errors: tuple[FieldError, ...]
    spec: WorkloadSpec | None
    """The submission with all defaults filled; null where it is not valid."""
