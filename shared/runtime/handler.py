"""What a service gives to the loop, and what a decision gives back (ADR 2).

A service is a `Handler`: memory rebuilt by `load`, look-ups done in `prepare`, and a `decide`
without I/O that turns a batch of messages into an `Outcome`. The loop makes the outcome true in
one transaction and publishes it. When the transaction did not happen, the loop calls `load`
again, so a handler never undoes anything itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import msgspec

from shared.events.envelope import Received
from shared.events.topics import Topic
from shared.events.workloads import Wire
from shared.ports.reader import Reader
from shared.ports.store import Write


class Emit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A fact or command to publish; id, time, sequence and type are the loop's to add.

    `partition` is the cell for topics keyed by cell, 0 for others. `cause` is the message that
    was being decided.
    """

    payload: Wire
    topic: Topic
    subject: str
    cause: Received
    partition: int = 0


class Change(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One new state version of one subject: becomes an audit row."""

    subject: str
    version: int
    before: str
    after: str
    cause: Received
    actor: str = ""
    kind: str = ""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """All effects of one batch, in order."""

    emits: list[Emit] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    dead: list[tuple[Received, str]] = field(default_factory=list)
    """Messages that can never be processed, with the reason; each goes to its dead letters."""


class Handler(Protocol):
    """A service as the loop sees it."""

    name: str
    """Name of the service: its schema, its role, the `ce_source` of what it emits."""

    def topics(self) -> Sequence[tuple[Topic, Sequence[int]]]:
        """Topics with the partitions to read; asked again after every commit."""
        ...

    async def load(self, reader: Reader) -> None:
        """Forget everything and rebuild the memory from the service's own tables."""
        ...

    async def prepare(self, messages: Sequence[Received], reader: Reader) -> None:
        """Look up what `decide` will need for these messages; most services need nothing."""
        ...

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        """Apply the messages in order and say what must become true. No I/O, deterministic."""
        ...

    def due(self, now_ms: int) -> Sequence[Received]:
        """Deadlines that have passed, as messages of topic "deadline" with derived ids."""
        ...

    def next_due_ms(self) -> int | None:
        """When the next deadline passes, Unix milliseconds; None without one."""
        ...


@runtime_checkable
class Suspendable(Protocol):
    """A handler with work of its own beside the loop, such as driving a cluster."""

    async def suspend(self) -> None:
        """Stop that work until the next `load`: the lease may be another process's."""
        ...


@runtime_checkable
class Dependent(Protocol):
    """A handler that needs more than its log and its tables, such as an API server."""

    @property
    def ready(self) -> bool:
        """Whether it has what it needs now; without it the service is not ready."""
        ...


@runtime_checkable
class Exposing(Protocol):
    """A handler that has more metrics than fit into one scrape of all."""

    def expositions(self) -> Mapping[str, Callable[[], str]]:
        """By path on the port of /metrics: what writes it, in the text format of Prometheus.

        Called in a thread of its own, while the loop goes on.
        """
        ...


@runtime_checkable
class Selective(Protocol):
    """A handler that says which payloads it reads; others on its topics are passed over.

    They are neither decoded nor noted in the inbox; only the offset moves on.
    """

    def reads(self) -> Collection[type[Wire]]:
        """Types that `decide` has a use for."""
        ...


@runtime_checkable
class Recent(Protocol):
    """A handler that begins to read a topic late, and has no use for what lay there before.

    Records from before are passed over like payloads that a `Selective` handler does not read.
    """

    def since_ms(self, topic: str) -> int:
        """From when on the records of `topic` are read: the broker's time, Unix milliseconds."""
        ...


@runtime_checkable
class Foresighted(Protocol):
    """A handler that wants to know of some topics before it acts on the others."""

    def first(self) -> Collection[Topic]:
        """Topics that are read before the others, but for a part of each unit."""
        ...


@runtime_checkable
class Chronological(Protocol):
    """A handler for which what is told on several topics belongs together in time.

    What lay in the log when its life began is read in the order of the broker's times, whatever
    topic it is on; what comes after it as it comes.
    """

    by_time: bool


@runtime_checkable
class Patient(Protocol):
    """A handler for which large batches matter more than speed: views and sums, not decisions."""

    linger_seconds: float
    """How long the loop collects messages after the first one."""


@runtime_checkable
class Versioned(Protocol):
    """A handler for which a message that comes twice says nothing new: facts carry their version.

    Its messages are not noted in the inbox, which costs a row each, and come with their type and
    payload only; deadlines are noted. What it emits must have deadlines as causes, so that no
    event is told twice.
    """

    by_version: bool
