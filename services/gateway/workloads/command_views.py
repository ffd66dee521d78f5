"""Commands to workloads and nodes: what is sent, and what is answered."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from services.gateway.http.route import RANK_MAX
from services.gateway.http.views import Name, Request, Text, View
from shared.core.model.lifecycle import State
from shared.events.strict import ITEMS_MAX

PODS_MAX = 1_000_000
GPU_INDEX_MAX = 1_023
WORDS_MAX = 64
WORD_CHARACTERS_MAX = 1_024
WITHOUT_NUL = r"^[^\x00]*$"


class EmptyRequest(Request, frozen=True, kw_only=True):
    """No field is needed."""


class ReprioritiseRequest(Request, frozen=True, kw_only=True):
    """The class that the workload shall have from now on."""

    priority_class: Name
    """Name of the priority class; the team must be allowed to use it."""


class ResizeRequest(Request, frozen=True, kw_only=True):
    """The number of pods that an elastic gang shall have; the same again changes nothing."""

    pods: Annotated[int, Meta(ge=1, le=PODS_MAX)]
    """Pods of the gang from now on, between the sums of `min_count` and `count`."""


class ExecRequest(Request, frozen=True, kw_only=True):
    """A command to run in a pod, without standard input."""

    command: Annotated[
        tuple[Annotated[str, Meta(max_length=WORD_CHARACTERS_MAX, pattern=WITHOUT_NUL)], ...],
        Meta(min_length=1, max_length=WORDS_MAX),
    ]
    """The program and its arguments, a word each; no shell reads them."""
    rank: Annotated[int, Meta(ge=0, le=RANK_MAX)] = 0
    """Rank of the pod."""


class EvictRequest(Request, frozen=True, kw_only=True):
    """An operator's eviction: why, for the owner to read."""

    note: Text = ""
    """Why, in words that the owner reads."""


class Selection(Request, frozen=True, kw_only=True):
    """Which live workloads of a team are meant; at least one of the fields is needed."""

    labels: Annotated[dict[Name, Name], Meta(max_length=20)] = {}  # noqa: RUF012  # copied for each
    """Only workloads that have all of these labels."""
    ids: Annotated[tuple[Name, ...], Meta(max_length=ITEMS_MAX)] = ()
    """Only these workloads."""
    queue: Name = ""
    """Only workloads of this queue."""
    state: State | None = None
    """Only workloads in this state."""
    team: Name = ""
    """Only for operators; others always mean their own team."""
    after: Name = ""
    """Go on behind this workload, the last of the answer before."""
    priority_class: Name = ""
    """Only for :reprioritise."""
    pods: Annotated[int, Meta(ge=0, le=PODS_MAX)] = 0
    """Only for :resize."""
    note: Text = ""
    """Only for :evict: why, for the owners to read."""


class Commanded(View, frozen=True, kw_only=True):
    """The command is durable; `state` is what the workload was when it was given."""

    id: str
    """Id of the workload."""
    command: str
    """The command that was given: cancel, hold, release, reprioritise, resize or evict."""
    state: str
    """State of the workload when the command was given."""
    href: str


class BulkCommanded(View, frozen=True, kw_only=True):
    """The workloads that got the command, the oldest first.

    Where there are `more`, ask again for those `after` the last.
    """

    command: str
    """The command that was given: cancel, hold, release, reprioritise, resize or evict."""
    ids: tuple[str, ...]
    """Ids of the workloads that got it, the oldest first."""
    more: bool
    """Whether others are left: ask again with `after` = the last id."""


class NodeRequest(Request, frozen=True, kw_only=True):
    """Why a node is cordoned, drained or fenced, for the owners of work that runs there."""

    note: Text = ""
    """Why, in words that the owners of what runs there read."""


class RestoreRequest(Request, frozen=True, kw_only=True):
    """Which GPU of the node is fit again, and why."""

    gpu: Annotated[int, Meta(ge=0, le=GPU_INDEX_MAX)]
    """Index of the GPU on its node."""
    note: Text = ""
    """Why, in words that others read."""


class NodeCommanded(View, frozen=True, kw_only=True):
    """The command is durable; placement carries it out."""

    name: str
    """Name of the node."""
    command: str
    """The command that was given: cordon, drain, uncordon, fence or restore."""
