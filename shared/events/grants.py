"""Grants on the broker: generated from the topic table, and nothing else is allowed.

A service may WRITE what it produces, READ what it consumes, and WRITE the dead letters of what it
consumes. A fact is therefore told by its producer alone (ADR 20). Names are exact; only logins
that read everything, and logins that make topics for teams, have a prefix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from shared.events.topics import (
    AGENT_COMMANDS,
    AUDIT_FACTS,
    DEAD_LETTER_SUFFIX,
    NODE_FACTS,
    TOPICS,
    USAGE_FACTS,
    WITHOUT_ONE_COUNT,
    WRITTEN_BESIDE,
    Topic,
    team_results,
    team_submissions,
)

READER: Final = "operations"
"""Reads everything and writes nothing: `muster-ops check`."""
OPERATOR: Final = "operator"
"""A person with tools: reads everything, sends dead letters back, replays recorded traces."""
TEAMS: Final = "teams"
"""Makes topics, users, grants and quotas for teams; the gateway's second login, which sends
nothing. ALTER on the cluster is for users and grants, ALTER_CONFIGS for quotas."""
FLEET: Final = "fleet"
"""The simulated fleet: what a node agent may."""
"""Tells the inventories of a Kubernetes cluster's nodes, in place of their agents."""
CLUSTER_NAME: Final = "kafka-cluster"
"""Kafka's only name of the resource."""


class Operation(StrEnum):
    """What may be done; READ and WRITE imply DESCRIBE."""

    READ = "READ"
    WRITE = "WRITE"
    CREATE = "CREATE"
    ALTER = "ALTER"
    ALTER_CONFIGS = "ALTER_CONFIGS"


class Resource(StrEnum):
    """To what."""

    TOPIC = "TOPIC"
    GROUP = "GROUP"
    CLUSTER = "CLUSTER"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Grant:
    """One rule that allows; `principal` without Kafka's "User:"."""

    principal: str
    operation: Operation
    resource: Resource
    name: str
    prefixed: bool = False
    """Whether `name` is the beginning of what is meant."""


def principal_of(service: str) -> str:
    """The user of a service, in Kafka and in PostgreSQL: `node-agent` is `muster_node_agent`."""
    return f"muster_{service.replace('-', '_')}"


def principal_of_team(team: str, prefix: str) -> str:
    """The user of a team; the name of the one consumer group that it may use, too."""
    return f"{prefix}-team-{team}"


def grants(prefix: str) -> frozenset[Grant]:
    """Everything that stands before any team is there."""
    return frozenset(
        (
            *(one for topic in TOPICS for one in _on(topic, prefix)),
            *(
                _topic(FLEET, Operation.WRITE, one.on_broker(prefix))
                for one in (NODE_FACTS, USAGE_FACTS)
            ),
            *(
                _topic(service, operation, one.on_broker(prefix))
                for service, topics in WRITTEN_BESIDE.items()
                for one in topics
                for operation in (Operation.WRITE, Operation.READ)
            ),
            _topic(FLEET, Operation.READ, AGENT_COMMANDS.on_broker(prefix)),
            *(_below(who, Operation.READ, f"{prefix}.") for who in (READER, OPERATOR)),
            *(
                _below(TEAMS, operation, f"{prefix}.{kind}-")
                for kind in ("submission", "result")
                for operation in (Operation.CREATE, Operation.ALTER_CONFIGS)
            ),
            *(
                Grant(
                    principal=principal_of(TEAMS),
                    operation=operation,
                    resource=Resource.CLUSTER,
                    name=CLUSTER_NAME,
                )
                for operation in (Operation.ALTER, Operation.ALTER_CONFIGS)
            ),
        )
    )


def grants_of_team(team: str, prefix: str) -> frozenset[Grant]:
    """What a team may, and what others may on its two topics."""
    submissions, results = team_submissions(team), team_results(team)
    own = principal_of_team(team, prefix)
    sends, reads = submissions.on_broker(prefix), results.on_broker(prefix)
    return frozenset(
        (
            Grant(principal=own, operation=Operation.WRITE, resource=Resource.TOPIC, name=sends),
            Grant(principal=own, operation=Operation.READ, resource=Resource.TOPIC, name=reads),
            Grant(principal=own, operation=Operation.READ, resource=Resource.GROUP, name=own),
            *_reading(submissions, prefix),
            _topic(results.producer, Operation.WRITE, reads),
            _topic(OPERATOR, Operation.WRITE, sends),
        )
    )


def _on(topic: Topic, prefix: str) -> Iterator[Grant]:
    """A producer reads what it wrote last, its seals at least (runtime/newer_log.py)."""
    name = topic.on_broker(prefix)
    yield _topic(topic.producer, Operation.WRITE, name)
    if topic.producer not in WITHOUT_ONE_COUNT or topic in AUDIT_FACTS.values():
        yield _topic(topic.producer, Operation.READ, name)
    if topic.consumers:  # else it has no dead letters that could be sent back
        yield _topic(OPERATOR, Operation.WRITE, name)
    yield from _reading(topic, prefix)


def _reading(topic: Topic, prefix: str) -> Iterator[Grant]:
    """A consumer of a topic tells what it cannot read as dead letters."""
    name = topic.on_broker(prefix)
    for consumer in topic.consumers:
        yield _topic(consumer, Operation.READ, name)
        yield _topic(consumer, Operation.WRITE, name + DEAD_LETTER_SUFFIX)


def _topic(service: str, operation: Operation, name: str) -> Grant:
    principal = principal_of(service)
    return Grant(principal=principal, operation=operation, resource=Resource.TOPIC, name=name)


def _below(service: str, operation: Operation, beginning: str) -> Grant:
    return Grant(
        principal=principal_of(service),
        operation=operation,
        resource=Resource.TOPIC,
        name=beginning,
        prefixed=True,
    )
