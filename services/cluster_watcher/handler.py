"""The watcher as the loop sees it: news of the cluster in, facts about nodes out.

```
API server -> source -> Picture -> nodes that changed -> due -> decide -> rows, facts
agents -> their topic -> decide -> Observed -> nodes that changed
placement -> its topic -> decide -> Tainting -> taints of nodes
```
News only mark nodes; what is told of one is worked out when it is due, at most twice a second, and
only if it differs from what was told last, which is in the table. So a restart tells what changed
meanwhile and nothing else, and a node that went in the meantime is told as removed. Nothing
is told before every kind of object was listed. While the API server does not answer, nothing is
told at all: a node is lost by what the API server says, never by its silence. What agents see of
GPUs is added where it agrees with the API server (docs/adr/0075).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import structlog

from services.cluster_watcher import metrics, told
from services.cluster_watcher.closed_nodes import CLOSED_FACTS
from services.cluster_watcher.facts import SERVICE, WHOLE_NODE, Fact, as_message, health_of_gpus
from services.cluster_watcher.observed import Observed
from services.cluster_watcher.picture import Picture, ReadingPolicy, SeenNode
from services.cluster_watcher.tainting import Tainting
from services.cluster_watcher.told import ToldNode
from shared.core.cluster.inventory import problem_of
from shared.core.kubernetes.inventory import KubernetesNode
from shared.core.kubernetes.standing import NodeStanding
from shared.events.envelope import Received
from shared.events.nodes import (
    GpuHealthReported,
    GpusObserved,
    NodeInventoryReported,
    NodeRemoved,
)
from shared.events.topics import GPU_FACTS, NODE_FACTS, WORKLOAD_FACTS, Topic
from shared.events.workloads import Wire
from shared.ports.clock import Clock
from shared.ports.cluster_nodes import Interrupted, Kind, Listed, News, NodeSource, NodeTaints
from shared.ports.reader import Reader
from shared.runtime.handler import Emit, Outcome

NODES_PER_BATCH: Final = 500
BETWEEN_REPORTS_MS: Final = 500
"""Of one node: what changes often is told as it is then."""
RETRY_MS: Final = 30_000
"""A node that cannot be told is looked at again so much later."""

log = structlog.get_logger(SERVICE)


class WatcherHandler:
    """See the module. One handler reports one cell."""

    name = SERVICE
    by_version = True

    def __init__(
        self,
        *,
        source: NodeSource,
        clock: Clock,
        policy: ReadingPolicy,
        taints: NodeTaints | None = None,
        cell: int = 0,
    ) -> None:
        """`taints`: where nodes are tainted; None: they are not."""
        self.on_wake: Callable[[], None] = lambda: None
        """Set by the loop: called when a node is due, so that it polls at once."""
        self._source = source
        self._clock = clock
        self._policy = policy
        self._cell = cell
        self._picture = Picture(policy)
        self._interrupted: set[Kind] = set()
        self._told: dict[str, ToldNode] = {}
        self._observed = Observed(cell)
        self._tainting = Tainting(taints, cell)
        self._refused: dict[str, str] = {}
        """Why what an agent sees is not taken, by node."""
        self._due_ms: dict[str, int] = {}
        self._looked_ms: dict[str, int] = {}
        """When a node was told last; those of the last moments only."""
        self._standings: dict[str, NodeStanding] = {}
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        """It listens, and taints nodes."""

    @property
    def ready(self) -> bool:
        """Whether the API server has told everything and is being listened to."""
        return self._picture.complete and not self._interrupted

    def topics(self) -> Sequence[tuple[Topic, Sequence[int]]]:
        """What agents see, what placement keeps work off; other news come from the API server."""
        return ((GPU_FACTS, (self._cell,)), (WORKLOAD_FACTS, (self._cell,)))

    def reads(self) -> Collection[type[Wire]]:
        """See `topics`."""
        return (GpusObserved, *CLOSED_FACTS)

    async def load(self, reader: Reader) -> None:
        """Forget everything, read what was told, and listen anew."""
        await self.suspend()
        self._picture = Picture(self._policy)
        self._interrupted, self._due_ms = set(), {}
        self._looked_ms, self._standings = {}, {}
        self._refused = {}
        self._told = await told.load(reader, self._cell)
        self._observed = Observed(self._cell)
        await self._observed.load(reader)
        await self._tainting.load(reader)
        self._tasks = (
            asyncio.create_task(self._source.follow(self._hear)),
            asyncio.create_task(self._tainting.run()),
        )

    async def suspend(self) -> None:
        """Listen no more until the next `load`."""
        tasks, self._tasks = self._tasks, ()
        for one in tasks:
            one.cancel()
        if tasks:
            await asyncio.wait(tasks)  # what ended them is raised by `due`, not here
        await self._source.close()
        await self._tainting.close()

    async def prepare(self, messages: Sequence[Received], reader: Reader) -> None:
        """Nothing to look up."""

    def due(self, now_ms: int) -> Sequence[Received]:
        """Facts about nodes that changed; raises what ended the listening, if it has ended."""
        for task in self._tasks:
            if task.done():
                task.result()
        if not self._picture.complete:
            return ()
        names = [name for name, at_ms in self._due_ms.items() if at_ms <= now_ms]
        facts: list[Fact] = []
        for name in names[:NODES_PER_BATCH]:
            del self._due_ms[name]
            facts += self._facts(name, now_ms)
        self._count()
        return [as_message(fact, now_ms, self._cell) for fact in facts]

    def next_due_ms(self) -> int | None:
        """When the next node is due."""
        if not self._picture.complete:
            return None
        return min(self._due_ms.values(), default=None)

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        """Hear what agents see; tell the facts, and note what was told."""
        outcome = Outcome()
        changed: dict[str, ToldNode] = {}
        gone: dict[str, None] = {}
        for message in messages:
            fact = message.event.payload
            if isinstance(fact, GpusObserved):
                if self._observed.hear(fact, now_ms):
                    self._mark((fact.node,), now_ms)
                continue
            if isinstance(fact, CLOSED_FACTS):
                self._tainting.hear(fact)
                continue
            if isinstance(fact, NodeInventoryReported):
                changed[fact.node.name] = self._as_told(fact)
            elif isinstance(fact, GpuHealthReported) and fact.gpu != WHOLE_NODE:
                known = changed.get(fact.node) or self._told[fact.node]
                changed[fact.node] = known.with_health(fact)
            elif isinstance(fact, NodeRemoved):
                gone[fact.node] = None
            outcome.emits.append(
                Emit(
                    payload=fact,
                    topic=NODE_FACTS,
                    subject=message.event.subject,
                    cause=message,
                    partition=self._cell,
                )
            )
        self._note(outcome, changed, gone)
        return outcome

    def _as_told(self, fact: NodeInventoryReported) -> ToldNode:
        known = self._told.get(fact.node.name)
        ill = known.ill if known is not None else {}
        return ToldNode(node=fact.node, generation=fact.generation, ill=ill)

    def _note(self, outcome: Outcome, changed: dict[str, ToldNode], gone: Collection[str]) -> None:
        if changed:
            self._told.update(changed)
            outcome.writes.append(told.put(changed, self._cell))
            for name in changed:
                self._observed.told(name)
        removed = [name for name in gone if self._told.pop(name, None) is not None]
        if removed:
            outcome.writes.append(told.delete(removed))
        for rows in (self._observed, self._tainting):
            rows.removed(gone)
            outcome.writes += rows.writes()
        for kind, count in Counter(type(one.payload) for one in outcome.emits).items():
            metrics.REPORTS.labels(kind.__name__).inc(count)

    # ── what is heard ──

    def _hear(self, news: News) -> None:
        if self._is_doubtful(news):
            news = Interrupted(
                kind=news.kind,
                problem=f"it lists no node, and {len(self._told)} are known: they stay until it"
                " lists one (MUSTER_NODE_SELECTOR, or the kubeconfig of another cluster?)",
            )
        if isinstance(news, Interrupted):
            self._interrupted.add(news.kind)
            metrics.INTERRUPTIONS.labels(news.kind).inc()
            log.warning("the API server is not heard", kind=news.kind, problem=news.problem)
            return
        if isinstance(news, Listed):
            metrics.LISTS.labels(news.kind).inc()
            self._interrupted.discard(news.kind)
            was_complete = self._picture.complete
            names = self._picture.listed(news)
            if self._picture.complete and not was_complete:
                names = {*self._picture.names, *self._told}
                log.info("the cluster is known", nodes=len(set(self._picture.names)))
        else:
            names = self._picture.changed(news)
        self._mark(names, self._clock.now_ms())
        for item in news.items.values() if isinstance(news, Listed) else (news.item,):
            if isinstance(item, KubernetesNode):
                self._tainting.seen(item)

    def _is_doubtful(self, news: News) -> bool:
        """A cluster without a node: taken at its word, a slip in a setting would evict all work.

        Nodes that are deleted while the API server is watched come as changes, down to the last.
        """
        empty = isinstance(news, Listed) and news.kind is Kind.NODES and not news.items
        return empty and bool(self._told)

    def _mark(self, names: Iterable[str], now_ms: int) -> None:
        for name in names:
            at_ms = max(now_ms, self._looked_ms.get(name, 0) + BETWEEN_REPORTS_MS)
            self._due_ms[name] = min(self._due_ms.get(name, at_ms), at_ms)
        if self._picture.complete:
            self.on_wake()

    # ── what is told ──

    def _facts(self, name: str, now_ms: int) -> list[Fact]:
        """What is to be told of a node now; nothing where it is as it was told."""
        known = self._told.get(name)
        generation = max(now_ms, known.generation + 1 if known is not None else 0)
        seen = self._seen(name, now_ms)
        if seen is None:
            self._standings.pop(name, None)
            self._looked_ms.pop(name, None)
            self._refused.pop(name, None)
            if known is None or name in self._picture.names:
                return []
            return [NodeRemoved(node=name, generation=generation, cell=self._cell)]
        if known is not None and known.node == seen.node and known.ill == seen.ill:
            return []
        self._looked_ms[name] = now_ms
        facts: list[Fact] = [
            NodeInventoryReported(node=seen.node, generation=generation, cell=self._cell)
        ]
        if seen.node.ready != (known is None or known.node.ready):
            facts.append(
                GpuHealthReported(
                    node=name,
                    gpu=WHOLE_NODE,
                    healthy=seen.node.ready,
                    generation=generation,
                    reason=seen.judgement.reason,
                    cell=self._cell,
                )
            )
        ill = known.ill if known is not None else {}
        return facts + health_of_gpus(name, ill, seen.ill, generation, self._cell)

    def _seen(self, name: str, now_ms: int) -> SeenNode | None:
        """The node as it is now, if it can be told; looked at again when its time comes."""
        try:
            seen = self._picture.node(name, now_ms, self._observed.of(name, now_ms))
            problem = problem_of(seen.node) if seen is not None else ""
        except ValueError as error:
            seen, problem = None, str(error)
        if problem:
            metrics.REFUSED.inc()
            log.error("a node cannot be published", node=name, problem=problem)
            self._due_ms[name] = now_ms + RETRY_MS
            return None
        if seen is not None:
            self._note_refusal(name, seen.refused)
            self._standings[name] = seen.judgement.standing
            if seen.judgement.until_ms is not None:
                self._due_ms[name] = seen.judgement.until_ms
        return seen

    def _note_refusal(self, name: str, problem: str) -> None:
        """Once for each problem of a node."""
        if problem and self._refused.get(name) != problem:
            metrics.REFUSED_OBSERVATIONS.inc()
            log.error("what an agent sees is not taken", node=name, problem=problem)
        if problem:
            self._refused[name] = problem
        else:
            self._refused.pop(name, None)

    def _count(self) -> None:
        counts = Counter(self._standings.values())
        for standing in NodeStanding:
            metrics.NODES.labels(standing).set(counts[standing])
