"""Workloads and their events as they are read."""

from __future__ import annotations

import msgspec

from services.gateway.views import View
from shared.core.lifecycle import State
from shared.core.model import WorkloadSpec
from shared.core.units import Resources


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
    kind: str
    state: State
    version: int
    priority: int | None
    priority_class: str
    pods: int | None
    gpu_milli: int | None
    placed_pods: int
    placed_gpu_milli: int
    labels: dict[str, str]
    attempt: int
    flavor: str
    nodes: tuple[str, ...]
    reason: str
    message: str
    submitted_at_ms: int
    queued_at_ms: int | None
    placed_at_ms: int | None
    running_at_ms: int | None
    ended_at_ms: int | None


class WorkloadView(WorkloadSummary, frozen=True, kw_only=True):
    """A workload with its spec (defaults filled once queued) and where its pods are."""

    cell: int
    charge: Resources | None
    spec: WorkloadSpec | None
    placement: msgspec.Raw


class WorkloadPage(View, frozen=True, kw_only=True):
    """A page, the newest first; `next_cursor` is empty on the last one."""

    items: tuple[WorkloadSummary, ...]
    next_cursor: str


class EventView(View, frozen=True, kw_only=True):
    """Something that happened; `id` is the place to go on from."""

    id: int
    workload_id: str
    team: str
    type: str
    version: int
    at_ms: int
    state: str
    reason: str
    message: str
    detail: msgspec.Raw


class EventPage(View, frozen=True, kw_only=True):
    """Events in order; ask again with `after` = `next_after`."""

    items: tuple[EventView, ...]
    next_after: int
