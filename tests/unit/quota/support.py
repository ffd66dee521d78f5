"""A quota handler without a loop: messages in, emits and rows out."""

from services.quota.handler import QuotaHandler
from shared.core.model.decision import Reason
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Placement, Workload
from shared.core.model.units import Resources
from shared.events import workloads
from shared.events.organisation import CohortApplied, FlavorApplied, QueueApplied
from shared.events.quotas import FlavorQuota
from shared.events.topics import ORGANISATION_FACTS, QUEUE_FACTS, WORKLOAD_FACTS
from tests.unit.admission.builders import a_spec, gpu_quota
from tests.unit.admission.support import received


def queue_document(name="q", version=1, gpus=8, **rest):
    flavors = (FlavorQuota(flavor="h100", nominal=gpu_quota(gpus)),)
    return QueueApplied(name=name, version=version, **({"team": "t", "flavors": flavors} | rest))


def cohort_document(name="c"):
    return CohortApplied(name=name, version=1)


def a_workload(identifier="w1", gpus=1, queue="q", priority=0, at_ms=1000, **rest):
    return Workload(
        id=identifier,
        team="t",
        queue=queue,
        cell=0,
        priority=priority,
        spec=a_spec(gpus=gpus, **rest),
        submitted_at_ms=at_ms,
    )


def a_refusal(identifier, nomination):
    return workloads.PlacementRefused(
        workload_id=identifier,
        team="t",
        queue="q",
        nomination=nomination,
        reason=Reason.NO_CAPACITY,
        message="",
        next_step="",
    )


class Ledger:
    """A quota handler and what placement would tell it; every call is one batch."""

    def __init__(self, *documents):
        self.handler = QuotaHandler()
        self.offset = 0
        self.now_ms = 10_000
        self.late_ms = 0
        """How old messages are when they are heard."""
        self.versions = {}
        self.attempts = {}
        self.outcomes = []
        if documents:
            self.apply(*documents)

    def decide(self, *payloads, topic=QUEUE_FACTS.name):
        messages = []
        for payload in payloads:
            self.offset += 1
            messages.append(received(payload, topic, self.offset, self.now_ms - self.late_ms))
        outcome = self.handler.decide(messages, self.now_ms)
        self.outcomes.append(outcome)
        return outcome

    def apply(self, *documents):
        return self.decide(*documents, topic=ORGANISATION_FACTS.name)

    def queue(self, *items):
        return self.decide(
            *(workloads.WorkloadQueued(workload=one, body_hash="h") for one in items)
        )

    def fact(self, kind, identifier, state, **rest):
        self.versions[identifier] = self.versions.get(identifier, 1) + 1
        common = {
            "workload_id": identifier,
            "team": "t",
            "queue": "q",
            "version": self.versions[identifier],
            "state": state,
            "attempt": self.attempts.get(identifier, 0),
            "priority": 0,
        }
        return self.decide(kind(**(common | rest)), topic=WORKLOAD_FACTS.name)

    def place(self, identifier, gpus=1, flavor="h100", at_ms=20_000):
        self.attempts[identifier] = self.attempts.get(identifier, 0) + 1
        charge = Resources(gpu_milli=gpus * 1000, cpu_milli=0, memory_mib=0)
        placement = Placement(flavor=flavor, pods=(), charge=charge)
        return self.fact(
            workloads.WorkloadPlaced,
            identifier,
            State.PLACED,
            placement=placement,
            placed_at_ms=at_ms,
            submitted_at_ms=1000,
        )

    def refuse(self, identifier, nomination):
        return self.decide(a_refusal(identifier, nomination), topic=WORKLOAD_FACTS.name)

    def resize(self, identifier, gpus, resizes, at_ms):
        charge = Resources(gpu_milli=gpus * 1000, cpu_milli=0, memory_mib=0)
        placement = Placement(flavor="h100", pods=(), charge=charge)
        return self.fact(
            workloads.WorkloadResized,
            identifier,
            State.RUNNING,
            placement=placement,
            resized_at_ms=at_ms,
            resizes=resizes,
        )

    def end(self, kind, identifier, state, at_ms=30_000, resizes=0):
        return self.fact(
            kind,
            identifier,
            state,
            released_at_ms=at_ms,
            released_attempt=self.attempts.get(identifier, 0),
            released_resizes=resizes,
        )

    def succeed(self, identifier, at_ms=30_000, resizes=0):
        return self.end(workloads.WorkloadSucceeded, identifier, State.SUCCEEDED, at_ms, resizes)


def short(outcome):
    """Emits as `Kind:workload`."""
    return [f"{type(one.payload).__name__}:{one.subject}" for one in outcome.emits]


def writes(outcome, verb, table):
    """Arguments of the writes of one kind."""
    return [
        one.arguments
        for one in outcome.writes
        if one.sql.startswith(verb) and f"quota.{table}" in one.sql
    ]


def used(ledger, name="q", flavor="h100"):
    return ledger.handler.memory.core.tree.node(name).used.get(flavor, [0, 0, 0])[0]


def phase(ledger, identifier="w1"):
    return ledger.handler.memory.records.alive[identifier].phase


__all__ = [
    "CohortApplied",
    "FlavorApplied",
    "Ledger",
    "a_refusal",
    "a_workload",
    "phase",
    "queue_document",
    "used",
]
