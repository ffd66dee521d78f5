"""What a batch costs the placement service while its fleet is full and much of all sizes waits.

    python -m tests.benchmarks backlog --nodes 1000 --waiting 1000 --units 40 --json FILE

openb's sizes of random lengths in 20 queues fill the fleet until `--waiting` workloads find no
room; nearly each is a class of its own. Then each batch ends `--ends` workloads and brings as many
new ones. Beside it, on the same messages: a handler in which everybody who was woken searches,
though others have taken what woke him (before ADR 45). Both must place the same workloads.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from random import Random

import msgspec

from services.placement.handlers import PlacementHandler
from shared.core.model.nouns import Workload
from shared.events.envelope import Received, workload_id
from shared.events.nodes import NodeInventoryReported
from shared.events.pods import PodsFinished, PodsRunning
from shared.events.quotas import FlavorQuota, PermittedFlavor, QuotaChanged, WorkloadNominated
from shared.events.workloads import Wire, WorkloadPlaced
from tests.benchmarks.options import machine
from tests.support.protocol import a_message
from tests.support.work import fleet, submissions

START_MS = 1_700_000_000_000
BATCH_MS = 200
QUEUES = tuple(f"queue-{number}" for number in range(20))
LENGTHS_SECONDS = (600, 3_600, 7_200, 36_000, 86_400)


class Messages:
    """The messages of one history; the same seed makes the same."""

    def __init__(self, seed: int) -> None:
        self.now_ms = START_MS
        self._random = Random(seed)
        self._specs = submissions(1 << 40, seed, gangs=0.02)
        self._numbers = count(1)

    def of(self, payload: Wire) -> Received:
        """`payload` as it is read from its topic."""
        return a_message(next(self._numbers), payload)

    def nominations(self, many: int) -> list[Received]:
        """The next requests, in queues and of lengths at random."""
        return [self._nomination(next(self._numbers)) for _ in range(many)]

    def _nomination(self, number: int) -> Received:
        queue, length = self._random.choice(QUEUES), self._random.choice(LENGTHS_SECONDS)
        spec = msgspec.structs.replace(next(self._specs), expected_duration_seconds=length)
        workload = Workload(
            id=workload_id("benchmark", str(number)),
            team=queue,
            queue=queue,
            cell=0,
            priority=1,
            spec=spec,
            submitted_at_ms=self.now_ms,
        )
        nominated = WorkloadNominated(
            workload=workload,
            version=1,
            nomination=1,
            order_key=(-1, self.now_ms, number),
            flavors=(PermittedFlavor(flavor="default"),),
        )
        return self.of(nominated)

    def running(self, names: Iterable[str]) -> list[Received]:
        """Their pods run."""
        return [self.of(PodsRunning(workload_id=w, attempt=1, at_ms=self.now_ms)) for w in names]

    def ends(self, names: Iterable[str]) -> list[Received]:
        """Their pods have ended."""
        return [
            self.of(PodsFinished(workload_id=w, attempt=1, at_ms=self.now_ms, succeeded=True))
            for w in names
        ]

    def drawn(self, running: list[str], many: int) -> list[str]:
        """Some of those that run, taken out."""
        draw = self._random.randrange
        return [running.pop(draw(len(running))) for _ in range(many)]


class Both:
    """Two handlers that are told the same, and what each batch cost them in seconds of CPU."""

    def __init__(self) -> None:
        self._handlers = {"muster": PlacementHandler(), "everybody searches": PlacementHandler()}
        searching = self._handlers["everybody searches"]
        searching.cell.cycle.passes = lambda workload_id: False
        searching.cell.cycle._inadmissible.taken = lambda *_: None
        self.seconds: dict[str, list[float]] = {name: [] for name in self._handlers}

    @property
    def waiting(self) -> int:
        """Workloads that wait."""
        return len(self._handlers["muster"].state.waiting)

    def decide(self, messages: list[Received], now_ms: int) -> list[str]:
        """Who was placed, by either."""
        placed = {name: self._decide(name, messages, now_ms) for name in self._handlers}
        first, second = placed.values()
        assert first == second, "both must place the same workloads"
        return first

    def _decide(self, name: str, messages: list[Received], now_ms: int) -> list[str]:
        start = time.thread_time()
        outcome = self._handlers[name].decide(messages, now_ms)
        self.seconds[name].append(time.thread_time() - start)
        facts = [emit.payload for emit in outcome.emits]
        return [fact.workload_id for fact in facts if isinstance(fact, WorkloadPlaced)]


def parts(messages: list[Received], size: int = 500) -> Iterator[list[Received]]:
    """As they are read."""
    for first in range(0, len(messages), size):
        yield messages[first : first + size]


def fill(both: Both, messages: Messages, options: argparse.Namespace) -> list[str]:
    """Quota, nodes, and work until so much of it waits; who runs."""
    quota = [
        messages.of(QuotaChanged(name=one, kind="queue", flavors=(FlavorQuota(flavor="default"),)))
        for one in QUEUES
    ]
    nodes = [
        messages.of(NodeInventoryReported(node=one, generation=1)) for one in fleet(options.nodes)
    ]
    for part in parts([*quota, *nodes]):
        both.decide(part, messages.now_ms)
    running: list[str] = []
    while both.waiting < options.waiting:
        running += batch(both, messages, messages.nominations(250))
    return running


def batch(both: Both, messages: Messages, news: list[Received]) -> list[str]:
    """Decide, and let run who was placed."""
    messages.now_ms += BATCH_MS
    placed = both.decide(news, messages.now_ms)
    both.decide(messages.running(placed), messages.now_ms)
    return placed


def measure(options: argparse.Namespace) -> dict[str, object]:
    """Microseconds for a message by either, once the fleet is full."""
    both, messages = Both(), Messages(options.seed)
    running = fill(both, messages, options)
    for seconds in both.seconds.values():
        seconds.clear()
    placed = 0
    for _ in range(options.units):
        ends = messages.ends(messages.drawn(running, options.ends))
        started = batch(both, messages, [*ends, *messages.nominations(options.ends)])
        running += started
        placed += len(started)
    messages_us = {
        # Every second batch brings only that pods run.
        name: round(1e6 * statistics.fmean(seconds[::2]) / (2 * options.ends), 1)
        for name, seconds in both.seconds.items()
    }
    return {
        "message_us": messages_us,
        "ratio": round(messages_us["muster"] / messages_us["everybody searches"], 3),
        "placed": placed,
        "waiting": both.waiting,
        "running": len(running),
    }


def main() -> None:
    """Measure, print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog="example: python -m tests.benchmarks backlog --nodes 10000 --waiting 2000",
    )
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--waiting", type=int, default=1_000, help="workloads without room")
    parser.add_argument("--ends", type=int, default=50, help="and as many new ones, in a batch")
    parser.add_argument("--units", type=int, default=40, help="batches that are measured")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--short", action="store_true", help="300 nodes, 10 batches")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.short:
        options.nodes, options.units = 300, 10
    result = measure(options)
    for name, message_us in dict(result["message_us"]).items():  # type: ignore[call-overload]
        print(f"{name:<20} {message_us:8.1f} us a message")
    print("{ratio} of it; {placed} placed, {waiting} wait, {running} run".format(**result))
    if options.json:
        options.json.write_text(json.dumps({**result, **machine()}, indent=1))


if __name__ == "__main__":
    main()
