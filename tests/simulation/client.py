"""What the cell is asked for, and the client's own ledger of it.

Two teams share a cohort that owns all GPUs. Work comes by the gateway's topic and by the teams'
own ones, some of it twice under one key; what was queued is cancelled, held, evicted, and given
another priority. What holds is released in the end, and what lasts for ever has a limit, so all
work must end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from shared.adapters.memory_log import MemoryLog
from shared.core.model.lifecycle import TERMINAL
from shared.core.model.nouns import WorkloadSpec
from shared.events import organisation, topics, workloads
from shared.events.codec import decode
from shared.events.envelope import workload_id
from shared.events.fingerprint import body_hash
from shared.events.nodes import NodeInventoryReported
from shared.events.quotas import FlavorQuota
from shared.events.topics import Topic
from shared.ports.store import OutboxRow
from tests.simulation.ports import Time
from tests.support.placement_driver import FLAVOR, a_node, gpu_limit
from tests.support.work import record, submission_row
from tests.unit.admission.builders import a_spec

SUBMISSIONS: Final = 24
NODES: Final = ("n1", "n2", "n3")
GPUS: Final = 4
QUIET_SECONDS: Final = 3.0
"""So long at most the services run, and fail, before anything is in their topics."""
OWNED: Final = {"red": 8, "blue": 4}
"""GPUs that the queue of each team owns."""
CLASSES: Final = ("low", "high")
_HEARD: Final = (topics.QUEUE_FACTS, topics.WORKLOAD_FACTS)


class Client:
    """Its ledger: what was submitted, and what was heard of it, by workload id."""

    def __init__(self, log: MemoryLog, random: Random, time: Time) -> None:
        self._log, self._random, self._time = log, random, time
        self.submitted: dict[str, str] = {}
        """The team of each."""
        self.answers: dict[str, int] = {}
        """How many submissions of each went by a team's own topic, where each is answered."""
        self.queued: dict[str, int] = {}
        self.ended: dict[str, list[str]] = {}
        self.held: dict[tuple[str, int], list[int]] = {}
        """When each attempt was placed and released, Unix milliseconds."""
        self._again: list[Callable[[], None]] = []
        """Submissions that come once more, later."""
        self._held: list[str] = []
        self._heard: set[str] = set()
        self._read: dict[str, int] = {}
        self._number = 0

    @property
    def done(self) -> bool:
        """Whether all was asked for, and all of it has ended."""
        asked = len(self.submitted) == SUBMISSIONS and not self._again
        return asked and set(self.ended) == set(self.submitted)

    async def run(self) -> None:
        """Ask until all was asked for, and listen."""
        random = self._random
        await asyncio.sleep(random.uniform(0.0, QUIET_SECONDS))
        self._prepare()
        while not self.done:
            await asyncio.sleep(random.uniform(0.1, 0.7))
            self._listen()
            if len(self.submitted) < SUBMISSIONS:
                self._submit()
                if self._again and random.random() < 0.3:
                    self._again.pop()()
                if random.random() < 0.4:
                    self._command()
            elif self._again:
                self._again.pop()()
            elif self._held:
                self._tell_of(workloads.ReleaseWorkload, self._held.pop())

    def report(self, node: str, *, ready: bool, generation: int) -> None:
        """A node tells of itself."""
        fact = NodeInventoryReported(
            node=a_node(node, gpus=GPUS, ready=ready), generation=generation
        )
        self._tell(fact, topics.NODE_FACTS, node)

    def _prepare(self) -> None:
        documents: list[tuple[str, Any]] = [
            (FLAVOR, organisation.FlavorApplied(name=FLAVOR, version=1)),
            ("all", organisation.CohortApplied(name="all", version=1)),
        ]
        for value, name in enumerate(CLASSES):
            made = organisation.PriorityClassApplied(name=name, version=1, value=value * 10)
            documents.append((name, made))
        for team, owned in OWNED.items():
            quota = FlavorQuota(flavor=FLAVOR, nominal=gpu_limit(owned))
            documents += [
                (team, organisation.TeamApplied(name=team, version=1, default_queue=team)),
                (team, organisation.QueueApplied(
                    name=team, version=1, team=team, cohort="all", flavors=(quota,),
                )),
            ]  # fmt: skip
        for subject, document in documents:
            self._tell(document, topics.ORGANISATION_FACTS, subject)
        for node in NODES:
            self.report(node, ready=True, generation=1)

    def _tell(self, payload: workloads.Wire, topic: Topic, subject: str) -> None:
        self._number += 1
        number, now_ms = self._number, self._time.now_ms()
        self._log.append(record(payload, topic, subject, f"client-{number}", now_ms, number))

    # ── work ──

    def _submit(self) -> None:
        random = self._random
        team, key = random.choice(sorted(OWNED)), f"k{len(self.submitted)}"
        subject = workload_id(team, key)
        self.submitted[subject] = team
        spec = self._spec(key)
        door = self._by_kafka if random.random() < 0.5 else self._by_gateway
        door(spec, team, key)
        if random.random() < 0.3:
            self._again.append(partial(door, spec, team, key))

    def _by_kafka(self, spec: WorkloadSpec, team: str, key: str) -> None:
        subject = workload_id(team, key)
        self.answers[subject] = self.answers.get(subject, 0) + 1
        self._log.append(self._submission(spec, team, key))

    def _by_gateway(self, spec: WorkloadSpec, team: str, key: str) -> None:
        subject = workload_id(team, key)
        command = workloads.SubmitWorkload(
            spec=spec, workload_id=subject, team=team, body_hash=body_hash(spec)
        )
        self._tell(command, topics.SUBMISSION_COMMANDS, subject)

    def _submission(self, spec: WorkloadSpec, team: str, key: str) -> OutboxRow:
        self._number += 1
        return submission_row(self._number, spec, team, key, self._time.now_ms())

    def _spec(self, name: str) -> WorkloadSpec:
        random = self._random
        lasts = random.choice((1, 2, 5, None))
        return a_spec(  # type: ignore[no-any-return]
            name=name,
            gpus=random.choice((1, 1, 2, 4)),
            count=random.choice((1, 1, 2, 3)),
            priority_class=random.choice(CLASSES),
            expected_duration_seconds=lasts,
            max_duration_seconds=None if lasts else random.choice((1, 2, 4)),
            grace_seconds=1,
        )

    def _command(self) -> None:
        alive = sorted(set(self.queued) - set(self.ended) - set(self._held))
        if not alive:
            return
        subject, random = self._random.choice(alive), self._random
        kind, more = random.choice(
            (
                (workloads.CancelWorkload, {}),
                (workloads.HoldWorkload, {}),
                (workloads.RequestEviction, {}),
                (workloads.ReprioritiseWorkload, {"priority_class": random.choice(CLASSES)}),
            )
        )
        self._tell_of(kind, subject, **more)
        if kind is workloads.HoldWorkload:
            self._held.append(subject)

    def _tell_of(self, kind: Any, subject: str, **more: str) -> None:  # a command
        command = kind(workload_id=subject, team=self.submitted[subject], **more)
        self._tell(command, topics.SUBMISSION_COMMANDS, subject)

    # ── what is heard ──

    def _listen(self) -> None:
        for topic in _HEARD:
            for payload in self.news(topic.name):
                if isinstance(payload, workloads.WorkloadQueued):
                    subject = payload.workload.id
                    self.queued[subject] = self.queued.get(subject, 0) + 1
                else:
                    self._hear(payload)

    def _hear(self, fact: Any) -> None:  # a fact of placement
        if getattr(fact, "state", None) in TERMINAL:
            self.ended.setdefault(fact.workload_id, []).append(type(fact).__name__)
        if isinstance(fact, workloads.WorkloadPlaced):
            self.held[fact.workload_id, fact.attempt] = [fact.placed_at_ms]
        elif getattr(fact, "released_attempt", 0):
            times = self.held[fact.workload_id, fact.released_attempt]
            times.append(max(times[0], fact.released_at_ms))

    def news(self, topic: str) -> Sequence[Any]:
        """Payloads on a topic since the last call, each event once."""
        records = self._log.records.get((topic, 0), [])
        read = self._read.get(topic, 0)
        self._read[topic] = len(records)
        news = []
        for one in records[read:]:
            event = decode(topic, 0, one.offset, one.headers, one.value, logged_ms=0).event
            if event.id not in self._heard:
                self._heard.add(event.id)
                news.append(event.payload)
        return news
