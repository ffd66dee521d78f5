"""Two services that only pass messages on, to test the protocol alone.

`admission` turns every `CancelWorkload` on submission.commands into one on queue.facts; `quota`
turns that into a `NominationWithdrawn` on quota.facts. Each writes an audit row for each message.
Run as a process: `python -m tests.support.echo admission [sabotage ...]`; a sabotage switches a
safety off, to show that the tests would see it: `no_epoch`, `no_inbox`, `offset_first`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from shared.adapters.postgres import store, unit_statement
from shared.events.envelope import Received
from shared.events.quotas import NominationWithdrawn
from shared.events.topics import QUEUE_FACTS, QUOTA_FACTS, SUBMISSION_COMMANDS, Topic
from shared.events.workloads import CancelWorkload, Wire
from shared.ports.reader import Reader
from shared.ports.store import Unit
from shared.runtime.dedupe import RecentIds
from shared.runtime.failpoints import Failpoints
from shared.runtime.handler import Change, Emit, Outcome
from shared.runtime.main import run_service

CHAIN: dict[str, tuple[Topic, Topic, Callable[[str], Wire]]] = {
    "admission": (
        SUBMISSION_COMMANDS,
        QUEUE_FACTS,
        lambda subject: CancelWorkload(workload_id=subject, team="echo"),
    ),
    "quota": (
        QUEUE_FACTS,
        QUOTA_FACTS,
        lambda subject: NominationWithdrawn(workload_id=subject, nomination=1),
    ),
}


class Echo:
    """A handler without memory."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.source, self.target, self.answer = CHAIN[name]

    def topics(self) -> Sequence[tuple[Topic, Sequence[int]]]:
        return [(self.source, [0])]

    async def load(self, reader: Reader) -> None:
        await reader.fetch("SELECT 1")

    async def prepare(self, messages: Sequence[Received], reader: Reader) -> None:
        """Nothing to look up."""

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        outcome = Outcome()
        for message in messages:
            subject = message.event.subject
            payload = self.answer(subject)
            outcome.emits.append(
                Emit(payload=payload, topic=self.target, subject=subject, cause=message)
            )
            outcome.changes.append(
                Change(subject=subject, version=1, before="", after="passed", cause=message)
            )
        return outcome

    def due(self, now_ms: int) -> Sequence[Received]:
        return []

    def next_due_ms(self) -> int | None:
        return None


def sabotage(names: Sequence[str]) -> None:
    """Switch safeties off in this process."""
    if "no_epoch" in names:
        unit_statement.UnitStatement.lease_check = "$1::text || $2::bigint"
    if "no_inbox" in names:
        unit_statement._add_inbox = lambda statement, schema, unit: None
        RecentIds.__contains__ = lambda self, identifier: False
        RecentIds.uncertain = lambda self, identifier: False
    if "offset_first" in names:
        store.PostgresStore.commit = _offset_first(store.PostgresStore.commit)


def _offset_first(commit: Callable) -> Callable:
    async def broken(self: store.PostgresStore, unit: Unit) -> None:
        offsets = unit_statement.next_offsets(unit)
        for (topic, partition), offset in offsets.items():
            await self._database.fetch(
                f"INSERT INTO {self._schema}.consumer_offset VALUES ($1, $2, $3, $4)"
                " ON CONFLICT (shard, topic, partition) DO UPDATE SET next_offset = $4",
                self._shard,
                topic,
                partition,
                offset,
            )
        await Failpoints.parse(os.environ.get("MUSTER_FAILPOINTS", ""), 0).reach("offset.first")
        await commit(self, unit)

    return broken


def main() -> None:
    """Run one echo service with the sabotage named on the command line."""
    name, *switches = sys.argv[1:]
    sabotage(switches)
    run_service(lambda settings: Echo(name))


if __name__ == "__main__":
    main()
