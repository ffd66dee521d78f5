"""Kafka's data is gone: all of it is made again from the database (ADR 98).

The order is what makes it safe. Topics come first, then the records of the outboxes, and only then
rules and users: until then no service may write, so nothing new stands before what is older. A
service finds other topic ids, reads from 0, and drops what its inbox has.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import SecretStr

from operations.configuration import Addresses
from operations.recovery.outboxes import Chosen, Outboxes
from operations.recovery.republish import Tell, republish
from shared.adapters.kafka import KafkaPublisher
from shared.adapters.kafka.admin_client import Administration
from shared.adapters.kafka.administration import admit_team, make_grants_so, set_passwords
from shared.adapters.kafka.current_ids import current_ids
from shared.adapters.kafka.topics import create_topics
from shared.events.grants import grants, principal_of, principal_of_team
from shared.events.topics import (
    DEAD_LETTER_SUFFIX,
    GPU_FACTS,
    NODE_FACTS,
    TOPICS,
    USAGE_FACTS,
    team_results,
    team_submissions,
)
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess, TopicCopies
from shared.ports.publisher import Publisher
from shared.ports.store import OutboxRow

TRIES: Final = 20
PAUSE_SECONDS: Final = 0.5
WITHOUT_OUTBOX: Final = tuple(one.name for one in (NODE_FACTS, USAGE_FACTS, GPU_FACTS))
"""Agents tell them, and tell them again by themselves."""


@dataclass(slots=True, kw_only=True)
class Report:
    """What was made again, and what is lost."""

    topics_made: list[str] = field(default_factory=list)
    records: dict[str, int] = field(default_factory=dict)
    """Sent again, by topic."""
    teams: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    read_of_teams: dict[str, int] = field(default_factory=dict)
    """By topic of a team: records that admission has read. What came after them is lost."""
    read_of_agents: dict[str, int] = field(default_factory=dict)
    """By topic of node agents: the same, of the consumer that had read most."""
    older_than_outboxes: dict[str, int] = field(default_factory=dict)
    """By outbox: records that it does not keep any more; all were told days ago."""
    teams_without_password: list[str] = field(default_factory=list)


class _Patient:
    """A topic that was made just now may be unknown for a moment."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    async def publish(self, rows: Sequence[OutboxRow]) -> None:
        for _ in range(TRIES - 1):
            try:
                await self._publisher.publish(rows)
            except Transient:
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                return
        await self._publisher.publish(rows)

    async def close(self) -> None:
        await self._publisher.close()


async def recover(
    found: Outboxes,
    addresses: Addresses,
    passwords: Mapping[str, SecretStr],
    tell: Tell,
    *,
    copies: TopicCopies,
) -> Report:
    """Make everything again that is missing; with nothing missing it changes nothing.

    `passwords`: by role; empty leaves the users as they are.

    Raises:
        Transient: the broker is away or refuses; to begin anew is harmless.
    """
    report = Report(teams=await teams_of(found))
    lost = await _topics(found, addresses, report, copies)
    tell(f"{len(report.topics_made)} topics made; records of {len(lost)} are gone")
    if lost:
        publisher = _Patient(KafkaPublisher(addresses.kafka, addresses.prefix))
        try:
            report.records = await republish(found, publisher, Chosen(topics=lost), tell)
        finally:
            await publisher.close()
        await _tell_lost(found, lost, report)
    if addresses.kafka.protocol.has_user:
        await _admit(addresses, passwords, report)
        tell(f"rules made so; {len(report.users)} users have their passwords")
    return report


async def teams_of(found: Outboxes) -> list[str]:
    """Teams that submit by Kafka, by the documents of the organisation."""
    rows = await found.fetch("SELECT name, body FROM gateway.document WHERE kind = 'team'")
    return sorted(
        row["name"] for row in rows if row["body"] and json.loads(row["body"]).get("kafka", True)
    )


async def _topics(
    found: Outboxes, addresses: Addresses, report: Report, copies: TopicCopies
) -> set[str]:
    """Make what is missing; names of the topics whose records are gone."""
    teams = [one for team in report.teams for one in (team_submissions(team), team_results(team))]
    access, prefix = addresses.kafka, addresses.prefix
    made = await create_topics(access, prefix, [*TOPICS, *teams], copies=copies)
    report.topics_made = sorted(made)
    known = await _known_ids(found)
    now = await current_ids(access, prefix, sorted(known))
    others = {topic for topic, ids in known.items() if topic in now and now[topic] not in ids}
    return {*made, *others, *(f"{topic}{DEAD_LETTER_SUFFIX}" for topic in others)}


async def _known_ids(found: Outboxes) -> dict[str, set[str]]:
    """By topic, the ids in which services have read."""
    known: dict[str, set[str]] = {}
    for schema in await found.schemas():
        for row in await found.fetch(
            f"SELECT DISTINCT topic, topic_id FROM {schema}.consumer_offset"  # noqa: S608  # found names
            " WHERE topic_id IS NOT NULL"
        ):
            known.setdefault(row["topic"], set()).add(row["topic_id"])
    return known


async def _tell_lost(found: Outboxes, lost: Collection[str], report: Report) -> None:
    reads: dict[str, int] = {}
    for schema in await found.schemas():
        for row in await found.fetch(
            f"SELECT topic, partition, next_offset FROM {schema}.consumer_offset"  # noqa: S608  # found names
        ):
            place = f"{row['topic']}/{row['partition']}"
            if row["topic"] in lost and row["next_offset"] > reads.get(place, -1):
                reads[place] = row["next_offset"]
    report.read_of_teams = {
        place: count for place, count in reads.items() if place.startswith("submission-")
    }
    report.read_of_agents = {
        place: count for place, count in reads.items() if place.startswith(WITHOUT_OUTBOX)
    }
    for schema, shard in await found.shards():
        oldest = await found.fetch(
            f"SELECT min(seq) AS seq FROM {schema}.outbox WHERE shard = $1",  # noqa: S608  # found names
            shard,
        )
        if (oldest[0]["seq"] or 1) > 1:
            report.older_than_outboxes[f"{schema}/{shard}"] = oldest[0]["seq"] - 1


async def _admit(addresses: Addresses, passwords: Mapping[str, SecretStr], report: Report) -> None:
    access, prefix = addresses.kafka, addresses.prefix
    await make_grants_so(access, grants(prefix))
    for team in report.teams:
        await admit_team(access, team, prefix)
    users = {principal_of(role): password for role, password in passwords.items()}
    if users:
        await set_passwords(access, users)
    report.users = sorted(users)
    report.teams_without_password = await asyncio.to_thread(
        teams_without_user, access, prefix, report.teams
    )


def teams_without_user(access: KafkaAccess, prefix: str, teams: Sequence[str]) -> list[str]:
    """Teams whose user the broker does not know: only they and it had the password."""
    administration = Administration(access)
    return [one for one in teams if not administration.has_user(principal_of_team(one, prefix))]


def lines_of(report: Report) -> list[str]:
    """The report for people."""
    lines = [
        f"topics made: {len(report.topics_made)}",
        f"records sent again: {sum(report.records.values()):,}",
        *(f"  {topic:36} {count:>10,}" for topic, count in report.records.items()),
        f"users with their passwords: {len(report.users)}",
        f"teams with their rules: {len(report.teams)}",
    ]
    lines += [
        f"lost: what its team wrote to {place} behind the {count:,} that were read"
        for place, count in sorted(report.read_of_teams.items())
    ]
    lines += [
        f"lost: samples in {place}, of which {count:,} were read; agents tell anew"
        for place, count in sorted(report.read_of_agents.items())
    ]
    lines += [
        f"not in the log: the first {count:,} records of {outbox}, days old"
        for outbox, count in report.older_than_outboxes.items()
    ]
    return [
        *lines,
        *(
            f"no password: team {team}; muster admin kafka-password {team}"
            for team in report.teams_without_password
        ),
    ]
