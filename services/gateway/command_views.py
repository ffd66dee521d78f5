"""Commands to workloads and nodes: what is sent, and what is answered."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from services.gateway.views import Name, Request, Text, View
from shared.core.lifecycle import State
from shared.events.strict import ITEMS_MAX

PODS_MAX = 1_000_000


class EmptyRequest(Request, frozen=True, kw_only=True):
    """No field is needed."""


class ReprioritiseRequest(Request, frozen=True, kw_only=True):
    """The class that the workload shall have from now on."""

    priority_class: Name


class ResizeRequest(Request, frozen=True, kw_only=True):
    """The number of pods that an elastic gang shall have; the same again changes nothing."""

    pods: Annotated[int, Meta(ge=1, le=PODS_MAX)]


class EvictRequest(Request, frozen=True, kw_only=True):
    """An operator's eviction: why, for the owner to read."""

    reason: Text = "operator"


class Selection(Request, frozen=True, kw_only=True):
    """Which live workloads of a team are meant; at least one of the fields is needed."""

    labels: Annotated[dict[Name, Name], Meta(max_length=20)] = {}  # noqa: RUF012  # copied for each
    ids: Annotated[tuple[Name, ...], Meta(max_length=ITEMS_MAX)] = ()
    queue: Name = ""
    state: State | None = None
    team: Name = ""
    """Only for operators; others always mean their own team."""
    after: Name = ""
    """Go on behind this workload, the last of the answer before."""
    priority_class: Name = ""
    """Only for :reprioritise."""
    pods: Annotated[int, Meta(ge=0, le=PODS_MAX)] = 0
    """Only for :resize."""
    reason: Text = "operator"
    """Only for :evict."""


class Commanded(View, frozen=True, kw_only=True):
    """The command is durable; `state` is what the workload was when it was given."""

    id: str
    command: str
    state: str
    href: str


class BulkCommanded(View, frozen=True, kw_only=True):
    """The workloads that got the command, the oldest first.

    Where there are `more`, ask again for those `after` the last.
    """

    command: str
    ids: tuple[str, ...]
    more: bool


class NodeRequest(Request, frozen=True, kw_only=True):
    """Why a node is cordoned or drained, for those whose work runs there."""

    reason: Text = ""


class NodeCommanded(View, frozen=True, kw_only=True):
    """The command is durable; placement carries it out."""

    name: str
    command: str
