"""Workloads and their events as they are read."""

from __future__ import annotations

import msgspec

from services.gateway.http.views import View
from shared.core.model.lifecycle import State
from shared.core.model.nouns import WorkloadSpec
from shared.core.model.reason import Reason
from shared.core.model.units import Resources


class WorkloadSummary(View, frozen=True, kw_only=True):
    """A workload as a list shows it. Times are Unix milliseconds, null until they happened.

    `pods` and `gpu_milli` are what was asked for, `placed_...` what it has, or had at its end; an
    elastic gang may have less. `priority` and `priority_class` are those of now; the spec stays as
    it was queued.
    """

    id: str
    team: str
    queue: str
    name: str
    """Name that its owner gave it."""
    kind: str
    """What it is for: a kind of workload."""
    state: State
    version: int
    """Counts up with each change; 0 until it is queued or rejected."""
    priority: int | None
    """Value of its priority class now; null until it is queued."""
    priority_class: str
    pods: int | None
    """Pods that were asked for; null until its facts are read."""
    gpu_milli: int | None
    """GPUs that were asked for, in thousandths; null until its facts are read."""
    placed_pods: int
    """Pods that it has, or had at its end."""
    placed_gpu_milli: int
    """GPUs that it has, or had at its end, in thousandths."""
    labels: dict[str, str]
    """Labels that its owner gave it."""
    attempt: int
    flavor: str
    """Flavor that it is charged to; empty where it was never placed."""
    nodes: tuple[str, ...]
    """Nodes on which it has pods, or had them last."""
    reason: Reason
    message: str
    pod_reason: str
    exit_code: int
    """Of the container that failed first in the attempt that ended last; 0: none did, or none is
    known."""
    submitted_at_ms: int
    queued_at_ms: int | None
    """When it was queued, Unix milliseconds."""
    placed_at_ms: int | None
    """When it got its devices, Unix milliseconds."""
    running_at_ms: int | None
    """When all of its pods ran, Unix milliseconds."""
    ended_at_ms: int | None
    """When it ended, Unix milliseconds."""


class WorkloadView(WorkloadSummary, frozen=True, kw_only=True):
    """A workload with its spec (defaults filled once queued) and where its pods are."""

    cell: int
    charge: Resources | None
    """What it is charged now; null where it holds nothing."""
    spec: WorkloadSpec | None
    """The submission, with all defaults once it is queued."""
    placement: msgspec.Raw
    """Node and devices of each pod; null where it holds nothing."""


class WorkloadPage(View, frozen=True, kw_only=True):
    """A page, the newest first; `next_cursor` is empty on the last one."""

    items: tuple[WorkloadSummary, ...]
    next_cursor: str


class EventView(View, frozen=True, kw_only=True):
    """Something that happened; `id` is the place to go on from."""

    id: int
    """Number of the event; it only grows."""
    workload_id: str
    team: str
    type: str
    """Type of the event, such as muster.workload.placed.v1."""
    version: int
    """Version of the workload after it; 0: it did not change the workload."""
    at_ms: int
    state: str
    """State of the workload after it."""
    reason: Reason
    message: str
    pod_reason: str
    detail: msgspec.Raw
    """Further data; its form depends on the type."""


class EventPage(View, frozen=True, kw_only=True):
    """Events in order; ask again with `after` = `next_after`."""

    items: tuple[EventView, ...]
    """The events, the oldest first."""
    next_after: int
    """Value of `after` that gives those that follow."""
    next_before: int
    """With `newest` or `before`: value of `before` that gives those in front; 0: none.

    With `since` there may be none, too: the page that it gives may be empty."""
