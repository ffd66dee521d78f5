"""A handler without a loop: messages in, emits and rows out."""

from services.admission.handler import AdmissionHandler
from shared.events.envelope import Event, Received, event_id, workload_id
from shared.events.fingerprint import body_hash
from shared.events.nodes import NodeInventoryReported, NodeRemoved
from shared.events.organisation import QueueApplied, TeamApplied
from shared.events.quotas import FlavorQuota
from shared.events.topics import (
    NODE_FACTS,
    ORGANISATION_FACTS,
    SUBMISSION_COMMANDS,
    team_submissions,
)
from shared.events.workloads import SubmitWorkload
from tests.unit.admission.builders import QUEUE, TEAM, a_node, a_spec, gpu_quota

ID = workload_id(TEAM, "k1")
"""Of what is submitted unless told otherwise."""


def received(payload, topic="submission.commands.v1", offset=0, at_ms=1_000, key=""):
    place = f"{topic}/{offset}/{key}"
    return Received(
        event=Event(
            id=event_id(at_ms, place, "test", 0),
            type="",
            source="test",
            subject="",
            time_ms=at_ms,
            key="",
            payload=payload,
            correlation_id=key,
        ),
        topic=topic,
        partition=0,
        offset=offset,
    )


class NoRows:
    """A reader of empty tables; `asked` counts the queries."""

    def __init__(self, rows=()):
        self.rows = list(rows)
        self.asked = 0

    async def fetch(self, sql, *arguments):
        self.asked += 1
        return self.rows


def a_team_document(name=TEAM, version=1, **rest):
    return TeamApplied(name=name, version=version, default_queue=rest.pop("queue", QUEUE), **rest)


def a_queue_document(name=QUEUE, version=1, gpus=64, team=TEAM, **rest):
    flavors = (FlavorQuota(flavor="h100", nominal=gpu_quota(gpus)),)
    return QueueApplied(name=name, version=version, team=team, flavors=flavors, **rest)


class Office:
    """One admission handler; every call is one batch. `now_ms` is long after the start."""

    def __init__(self, *, known=True, nodes=0):
        self.handler = AdmissionHandler()
        self.now_ms = 1_000
        self.offset = 0
        self.outcomes = []
        if known:
            self.apply(a_team_document(), a_queue_document())
        for i in range(nodes):
            self.report(a_node(f"n{i}"))
        self.now_ms = 1_000_000

    def decide(self, *messages):
        self.handler.memory.ids = {}
        outcome = self.handler.decide(messages, self.now_ms)
        self.outcomes.append(outcome)
        return outcome

    def message(self, payload, topic="submission.commands.v1", key=""):
        self.offset += 1
        return received(payload, topic, self.offset, key=key)

    def apply(self, *documents):
        return self.decide(*(self.message(one, ORGANISATION_FACTS.name) for one in documents))

    def report(self, node, generation=1):
        fact = NodeInventoryReported(node=node, generation=generation)
        return self.decide(self.message(fact, NODE_FACTS.name))

    def lose(self, name, generation=2):
        fact = NodeRemoved(node=name, generation=generation)
        return self.decide(self.message(fact, NODE_FACTS.name))

    def http(self, spec=None, key="k1", team=TEAM):
        spec = spec or a_spec()
        command = SubmitWorkload(
            workload_id=workload_id(team, key), team=team, spec=spec, body_hash=body_hash(spec)
        )
        return self.decide(self.message(command, SUBMISSION_COMMANDS.name))

    def kafka(self, spec=None, key="k1", team=TEAM, **claimed):
        command = SubmitWorkload(spec=spec or a_spec(), **claimed)
        return self.decide(self.message(command, team_submissions(team).name, key=key))

    def command(self, payload):
        return self.decide(self.message(payload, SUBMISSION_COMMANDS.name))

    def pass_ms(self, milliseconds):
        self.now_ms += milliseconds
        return self.decide(*self.handler.due(self.now_ms))


def kinds(outcome):
    return [type(one.payload).__name__ for one in outcome.emits]


def only(outcome, kind):
    (found,) = [one.payload for one in outcome.emits if isinstance(one.payload, kind)]
    return found


def rows_of(outcome, table):
    """What is written to a table of admission."""
    return [one for one in outcome.writes if f"admission.{table}" in one.sql]
