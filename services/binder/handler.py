"""The binder as the loop sees it: commands in, facts about pods out, each fact exactly once.

```
BindWorkload, EvictPods -> decide -> rows of binder.attempt -> committed -> Actuator -> cluster
PodsBound, ... on the wire <- decide <- observation (a local message) <- Actuator <- cluster
```
`decide` makes no call. What it decided reaches the actuator only after the commit (`topics`, which
the loop asks after every commit), so no pod is ever made for a row that does not exist. An
observation carries the very fact it wants told; the row says whether it still may be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from services.binder.actuator import Actuator
from services.binder.attempts import Attempt, BinderMemory, find_over, load
from services.binder.batch import RowBatch
from services.binder.gang_state import Key
from shared.events.envelope import Event, Received, event_id
from shared.events.pods import AskAttempts, BindWorkload, EvictPods, PodFact, ResizePods
from shared.events.registry import NAME_BY_TYPE
from shared.events.topics import POD_COMMANDS, Topic
from shared.ports.clock import Clock
from shared.ports.cluster import PodCluster
from shared.ports.reader import Reader
from shared.runtime.handler import Outcome

OBSERVATIONS_PER_BATCH: Final = 500
OBSERVATION: Final = "observation"


class BinderHandler:
    """See the module. One handler serves one cell."""

    name = "binder"

    def __init__(
        self,
        *,
        cluster: PodCluster,
        clock: Clock,
        cell: int = 0,
        release: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.on_wake: Callable[[], None] = lambda: None
        """Set by the loop: called when an observation waits, so that it polls at once."""
        self._cell = cell
        self._release = release
        self._actuator = Actuator(cluster=cluster, clock=clock, tell=self._observe)
        self._memory = BinderMemory(attempts={}, never_bound=set(), epochs={}, gangs=[])
        self._over: dict[Key, Attempt] = {}
        self._observations: deque[Received] = deque()
        self._after_commit: list[Callable[[], None]] = []

    def topics(self) -> Sequence[tuple[Topic, Sequence[int]]]:
        """The commands of one cell. Being asked means that the last unit is committed."""
        actions, self._after_commit = self._after_commit, []
        for action in actions:
            action()
        return [(POD_COMMANDS, [self._cell])]

    async def load(self, reader: Reader) -> None:
        """Rebuild from the tables; the actuator starts again with a list of the cluster."""
        await self.suspend()
        self._memory = await load(reader)
        self._actuator.start(self._memory.gangs)
        self._memory.gangs = []

    async def suspend(self) -> None:
        """Touch the cluster no more until the next `load`: another process may be in charge."""
        await self._actuator.stop()
        if self._release is not None:
            await self._release()
        self._after_commit.clear()
        self._observations.clear()

    async def prepare(self, messages: Sequence[Received], reader: Reader) -> None:
        """Look up attempts that are to be evicted, or asked about, and are not active (rare)."""
        wanted = [
            key
            for one in messages
            for key in _keys(one.event.payload)
            if key not in self._memory.attempts
        ]
        self._over = await find_over(wanted, reader) if wanted else {}

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        """Record the commands, tell the facts."""
        batch = RowBatch(self._memory, self._over, self._after_commit, self._actuator)
        for message in messages:
            payload = message.event.payload
            if isinstance(payload, PodFact):
                batch.observe(payload, message)
            elif isinstance(payload, BindWorkload):
                batch.bind(payload, message)
            elif isinstance(payload, EvictPods):
                batch.evict(payload, message)
            elif isinstance(payload, ResizePods):
                batch.resize(payload, message)
            elif isinstance(payload, AskAttempts):
                batch.ask(payload, message)
        return batch.finished(now_ms)

    def due(self, now_ms: int) -> Sequence[Received]:
        """Observations that wait; raises what ended the actuator, if it has ended."""
        del now_ms
        self._actuator.check()
        count = min(len(self._observations), OBSERVATIONS_PER_BATCH)
        return [self._observations.popleft() for _ in range(count)]

    def next_due_ms(self) -> int | None:
        """At once when an observation waits."""
        return 0 if self._observations else None

    def _observe(self, fact: PodFact, correlation_id: str) -> None:
        self._observations.append(_observation(fact, correlation_id))
        if len(self._observations) == 1:
            self.on_wake()


def _keys(payload: object) -> Sequence[Key]:
    """Attempts of which a command wants to know even if they are over."""
    if isinstance(payload, EvictPods):
        return [(payload.workload_id, payload.attempt)]
    if isinstance(payload, AskAttempts):
        return [(one.workload_id, one.attempt) for one in payload.attempts]
    return []


def _observation(fact: PodFact, correlation_id: str) -> Received:
    """A local message; its id is the same for the same fact seen at the same time."""
    name = type(fact).__name__
    place = f"{fact.workload_id}/{fact.attempt}/{name}{getattr(fact, 'number', '')}"
    event = Event(
        id=event_id(fact.at_ms, place, "binder", 0),
        type=NAME_BY_TYPE[type(fact)],
        source="binder",
        subject=fact.workload_id,
        time_ms=fact.at_ms,
        key=fact.workload_id,
        payload=fact,
        correlation_id=correlation_id,
    )
    return Received(event=event, topic=OBSERVATION, partition=fact.cell, offset=-1)
