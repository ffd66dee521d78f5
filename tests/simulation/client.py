"""What the cell is asked for, and the client's own ledger of it.

Commands go through two services that pass them on; attempts are bound by the binder, to whole
GPUs that nothing holds by what the binder has told: a GPU is free again with the last fact.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from shared.adapters.memory_log import MemoryLog
from shared.core.model.nouns import GpuShare, Placement, PodPlacement, PodSet
from shared.core.model.reason import Reason
from shared.core.model.units import Resources
from shared.events.codec import decode
from shared.events.pods import (
    BindRefused,
    BindWorkload,
    EvictPods,
    PodsFinished,
    PodsGone,
)
from shared.events.topics import POD_COMMANDS, POD_FACTS, QUOTA_FACTS, SUBMISSION_COMMANDS, Topic
from shared.events.workloads import CancelWorkload, Wire
from tests.simulation.ports import Time
from tests.support.work import record

COMMANDS: Final = 60
ATTEMPTS: Final = 24
NODES: Final = ("n1", "n2", "n3")
GPUS: Final = 4
LAST: Final = (PodsFinished, PodsGone, BindRefused)


class Client:
    """Its ledger: what was accepted, and what was heard of it, by id of the event."""

    def __init__(self, log: MemoryLog, random: Random, time: Time) -> None:
        self._log, self._random, self._time = log, random, time
        self.accepted: list[str] = []
        self.bound: dict[str, BindWorkload] = {}
        self.ended: dict[str, list[str]] = {}
        self._free = {(node, gpu) for node in NODES for gpu in range(GPUS)}
        self._evicted: set[str] = set()
        self._read = 0
        self._heard: set[str] = set()
        self._number = 0

    @property
    def done(self) -> bool:
        """Whether all was asked for, and all of it was heard of."""
        return (
            len(self.accepted) == COMMANDS
            and len(self.bound) == ATTEMPTS
            and set(self.ended) == set(self.bound)
            and len(self._log.records.get((QUOTA_FACTS.name, 0), ())) >= COMMANDS
        )

    async def run(self) -> None:
        """Ask until all was asked for, and listen."""
        random = self._random
        while not self.done:
            await asyncio.sleep(random.uniform(0.02, 0.3))
            self._listen()
            if len(self.accepted) < COMMANDS:
                self._command()
            if len(self.bound) < ATTEMPTS and len(self._free) > 3:
                self._bind()
            elif self.bound and random.random() < 0.15:
                self._evict()

    def _tell(self, payload: Wire, topic: Topic, subject: str) -> None:
        self._number += 1
        number, now_ms = self._number, self._time.now_ms()
        self._log.append(record(payload, topic, subject, f"client-{number}", now_ms, number))

    def _command(self) -> None:
        subject = f"w{len(self.accepted)}"
        self.accepted.append(subject)
        payload = CancelWorkload(workload_id=subject, team="echo")
        self._tell(payload, SUBMISSION_COMMANDS, subject)

    def _bind(self) -> None:
        subject, random = f"a{len(self.bound)}", self._random
        places = random.sample(sorted(self._free), random.randint(1, 3))
        self._free -= set(places)
        pods = tuple(
            PodPlacement(
                pod_set="main",
                rank=rank,
                node=node,
                shares=(GpuShare(index=gpu, mask=255, milli=1000, memory_mib=81_920),),
            )
            for rank, (node, gpu) in enumerate(places)
        )
        self.bound[subject] = command = BindWorkload(
            workload_id=subject,
            attempt=1,
            epoch=1,
            cell=0,
            team="red",
            placement=Placement(flavor="h100", pods=pods, charge=Resources()),
            pod_sets=(PodSet(name="main", count=len(pods)),),
            expected_duration_seconds=random.choice((1, 2, 5)),
        )
        self._tell(command, POD_COMMANDS, subject)

    def _evict(self) -> None:
        alive = sorted(set(self.bound) - set(self.ended) - self._evicted)
        if alive:
            subject = self._random.choice(alive)
            self._evicted.add(subject)
            payload = EvictPods(
                workload_id=subject, attempt=1, epoch=1, grace_seconds=1, cell=0,
                reason=Reason.PREEMPTED,
            )  # fmt: skip
            self._tell(payload, POD_COMMANDS, subject)

    def _listen(self) -> None:
        records = self._log.records.get((POD_FACTS.name, 0), [])
        for one in records[self._read :]:
            received = decode(one.topic, 0, one.offset, one.headers, one.value, logged_ms=0)
            payload = received.event.payload
            if received.event.id not in self._heard and isinstance(payload, LAST):
                self._heard.add(received.event.id)
                self._end(payload)
        self._read = len(records)

    def _end(self, fact: PodsFinished | PodsGone | BindRefused) -> None:
        ends = self.ended.setdefault(fact.workload_id, [])
        ends.append(type(fact).__name__)
        if len(ends) == 1:
            pods = self.bound[fact.workload_id].placement.pods
            self._free |= {(pod.node, one.index) for pod in pods for one in pod.shares}
