"""Who may do what on the broker: every user, every topic, as the topic table says."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from deploy.local.kafka import LocalKafka
from deploy.local.services import KAFKA_ROLES
from shared.adapters.kafka import KafkaPublisher, KafkaSubscription
from shared.adapters.kafka.admin_client import Administration
from shared.adapters.kafka.administration import (
    admit_team,
    dismiss_team,
    make_grants_so,
    set_passwords,
)
from shared.adapters.kafka.topics import create_topics
from shared.events.grants import grants, principal_of_team
from shared.events.topics import (
    AGENT_COMMANDS,
    AUDIT_FACTS,
    DEAD_LETTER_SUFFIX,
    NODE_FACTS,
    ORGANISATION_FACTS,
    QUEUE_FACTS,
    SUBMISSION_COMMANDS,
    TOPICS,
    USAGE_FACTS,
    WORKLOAD_FACTS,
    team_results,
    team_submissions,
)
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess
from tests.support.kafka_access import (
    a_row,
    may_join,
    may_read,
    may_write,
    wrong_password,
)

CLEAR_ERROR_SECONDS = 8.0


@pytest.fixture
async def prefix(secured_kafka: LocalKafka, topic_prefix: str) -> str:
    """Topics with one record each, under the rules of the table."""
    await make_table(secured_kafka, topic_prefix)
    return topic_prefix


@pytest.fixture(scope="module")
def asked_prefix(secured_kafka: LocalKafka) -> str:
    """The same, for those that ask who may do what and change no rule."""
    prefix = f"asked-{os.getpid()}"
    asyncio.run(make_table(secured_kafka, prefix))
    return prefix


async def make_table(broker: LocalKafka, prefix: str) -> None:
    await create_topics(broker.administrator, prefix, TOPICS)
    await make_grants_so(broker.administrator, grants(prefix))
    names = [one.on_broker(prefix) for one in TOPICS]
    letters = [name + DEAD_LETTER_SUFFIX for name in names]
    assert len(await may_write(broker.administrator, names + letters)) == 2 * len(TOPICS)


async def a_team(broker: LocalKafka, prefix: str, team: str) -> KafkaAccess:
    """A team with its topics, as the gateway makes it, and a record on each."""
    topics = (team_submissions(team), team_results(team))
    await create_topics(broker.access("teams"), prefix, topics)
    await admit_team(broker.access("teams"), team, prefix)
    user = principal_of_team(team, prefix)
    access = replace(broker.administrator, user=user)
    await set_passwords(broker.access("teams"), {user: access.password})
    await may_write(broker.administrator, [one.on_broker(prefix) for one in topics])
    return access


@pytest.mark.parametrize("role", KAFKA_ROLES)
async def test_a_user_writes_and_reads_what_the_table_says(
    secured_kafka: LocalKafka, asked_prefix: str, role: str
):
    names = [one.on_broker(asked_prefix) for one in TOPICS]
    service = role.replace("-", "_")
    writes = {
        one.on_broker(asked_prefix)
        for one in TOPICS
        if role == one.producer or (role == "operator" and one.consumers)
    }
    if role == "fleet":
        writes = {NODE_FACTS.on_broker(asked_prefix), USAGE_FACTS.on_broker(asked_prefix)}
    if role == "cluster-watcher":
        writes = {NODE_FACTS.on_broker(asked_prefix)}
    reads = {
        one.on_broker(asked_prefix)
        for one in TOPICS
        if service in one.consumers or role in ("operations", "operator")
    }
    one_count = service not in {"gateway", "node_agent"}
    reads |= {
        one.on_broker(asked_prefix)
        for one in TOPICS
        if one.producer == service and (one_count or one in AUDIT_FACTS.values())
    }
    if role == "cluster-watcher":
        reads |= writes
    if role == "fleet":
        reads = {AGENT_COMMANDS.on_broker(asked_prefix)}

    written = await may_write(secured_kafka.access(role), names)
    read = await may_read(secured_kafka.access(role), names)

    assert (writes, reads) == (written, read)


@pytest.mark.parametrize("role", KAFKA_ROLES)
async def test_dead_letters_are_written_by_those_who_read_the_topic(
    secured_kafka: LocalKafka, asked_prefix: str, role: str
):
    letters = {one.on_broker(asked_prefix) + DEAD_LETTER_SUFFIX: one for one in TOPICS}

    written = await may_write(secured_kafka.access(role), list(letters))

    service = role.replace("-", "_")
    assert {name for name, one in letters.items() if service in one.consumers} == written


async def test_a_fact_that_the_gateway_forges_is_refused(secured_kafka: LocalKafka, prefix: str):
    publisher = KafkaPublisher(secured_kafka.access("gateway"), prefix)
    await publisher.publish([a_row(SUBMISSION_COMMANDS)])

    started = time.monotonic()
    with pytest.raises(Transient, match="TopicAuthorizationFailed"):
        await publisher.publish([a_row(WORKLOAD_FACTS)])

    assert time.monotonic() - started < CLEAR_ERROR_SECONDS
    await publisher.publish([a_row(ORGANISATION_FACTS)])  # what it may, it still can
    await publisher.close()


async def test_a_team_has_its_two_topics_and_nothing_else(secured_kafka: LocalKafka, prefix: str):
    red = await a_team(secured_kafka, prefix, "red")
    await a_team(secured_kafka, prefix, "blue")
    of_teams = [
        kind(team).on_broker(prefix)
        for team in ("red", "blue")
        for kind in (team_submissions, team_results)
    ]
    names = [*of_teams, *(one.on_broker(prefix) for one in TOPICS)]

    assert {of_teams[0]} == await may_write(red, names)
    assert {of_teams[1]} == await may_read(red, names)
    assert await may_join(red, of_teams[1], red.user)
    assert not await may_join(red, of_teams[1], principal_of_team("blue", prefix))


async def test_a_team_that_is_called_like_a_service_is_none(
    secured_kafka: LocalKafka, prefix: str
):
    team = await a_team(secured_kafka, prefix, "placement")

    names = [one.on_broker(prefix) for one in TOPICS]

    assert set() == await may_write(team, names)
    assert set() == await may_read(team, names)


async def test_admission_reads_and_answers_every_team(secured_kafka: LocalKafka, prefix: str):
    await a_team(secured_kafka, prefix, "red")
    sent, told = team_submissions("red").on_broker(prefix), team_results("red").on_broker(prefix)
    dead = sent + DEAD_LETTER_SUFFIX
    names = [sent, told, dead]

    assert {told, dead} == await may_write(secured_kafka.access("admission"), names)
    assert {sent} == await may_read(secured_kafka.access("admission"), names)
    for role in ("gateway", "quota", "placement", "fleet", "teams"):
        assert set() == await may_write(secured_kafka.access(role), names), role
        assert set() == await may_read(secured_kafka.access(role), names), role


async def test_a_team_that_is_dismissed_can_do_nothing(secured_kafka: LocalKafka, prefix: str):
    red = await a_team(secured_kafka, prefix, "red")
    names = [team_submissions("red").on_broker(prefix)]
    assert await may_write(red, names)

    for _ in range(2):
        await dismiss_team(secured_kafka.access("teams"), "red", prefix)

    publisher = KafkaPublisher(red, prefix)
    with pytest.raises(Transient, match="Authentication failed"):
        await publisher.publish([a_row(team_submissions("red"))])


async def test_a_topic_without_rules_is_closed(secured_kafka: LocalKafka, prefix: str):
    administrator, elsewhere = secured_kafka.administrator, f"{prefix}-elsewhere"
    await create_topics(administrator, elsewhere, [WORKLOAD_FACTS])
    names = [WORKLOAD_FACTS.on_broker(elsewhere)]
    assert await may_write(administrator, names)

    for role in KAFKA_ROLES:
        assert set() == await may_write(secured_kafka.access(role), names), role
        assert set() == await may_read(secured_kafka.access(role), names), role


async def test_rules_that_nobody_wants_any_more_go(secured_kafka: LocalKafka, prefix: str):
    administration = Administration(secured_kafka.administrator)
    elsewhere, here = f"{prefix}.other", WORKLOAD_FACTS.on_broker(prefix)
    await create_topics(
        secured_kafka.administrator, prefix, [replace(WORKLOAD_FACTS, name="other")]
    )
    administration.create([_rule(here), _rule(elsewhere)])
    await _until_known(administration, here, elsewhere)
    assert {here, elsewhere} == await may_write(secured_kafka.access("gateway"), [here, elsewhere])

    await make_grants_so(secured_kafka.administrator, grants(prefix))

    assert {elsewhere} == await may_write(secured_kafka.access("gateway"), [here, elsewhere])


async def _until_known(administration: Administration, *names: str) -> None:
    async with asyncio.timeout(40):
        while not all(_rule(name) in administration.found(name=name) for name in names):
            await asyncio.sleep(0.02)


def _rule(name: str) -> AclBinding:
    return AclBinding(
        restype=ResourceType.TOPIC,
        name=name,
        resource_pattern_type=ResourcePatternType.LITERAL,
        principal="User:muster_gateway",
        host="*",
        operation=AclOperation.WRITE,
        permission_type=AclPermissionType.ALLOW,
    )


@pytest.mark.parametrize("role", ["gateway", "admission", "operator", "operations"])
async def test_nobody_who_sends_events_makes_topics_or_rules(
    secured_kafka: LocalKafka, prefix: str, role: str
):
    access = secured_kafka.access(role)

    with pytest.raises(Transient, match="error 29"):  # TOPIC_AUTHORIZATION_FAILED
        await create_topics(access, prefix, [team_submissions("red")])
    with pytest.raises(Transient, match="AUTHORIZATION_FAILED"):
        await make_grants_so(access, grants(prefix))
    with pytest.raises(Transient, match="AUTHORIZATION_FAILED"):
        await set_passwords(access, {"muster_placement": access.password})


async def test_whoever_admits_teams_makes_no_other_topics(secured_kafka: LocalKafka, prefix: str):
    stranger = replace(WORKLOAD_FACTS, name="stranger.facts.v1")

    with pytest.raises(Transient, match="error 29"):
        await create_topics(secured_kafka.access("teams"), prefix, [stranger])


async def test_a_subscription_to_what_may_not_be_read_fails_and_says_so(
    secured_kafka: LocalKafka, prefix: str
):
    subscription = KafkaSubscription(secured_kafka.access("binder"), prefix)

    started = time.monotonic()
    with pytest.raises(Transient, match="muster_binder may not read it"):
        await subscription.assign({(QUEUE_FACTS.name, 0): 0})

    assert time.monotonic() - started < CLEAR_ERROR_SECONDS
    await subscription.close()


async def test_a_subscription_to_what_may_only_be_written_fails_and_says_so(
    secured_kafka: LocalKafka, prefix: str
):
    subscription = KafkaSubscription(secured_kafka.access("gateway"), prefix)
    await subscription.assign({(SUBMISSION_COMMANDS.name, 0): 0})

    with pytest.raises(Transient, match="TopicAuthorizationFailed"):
        await subscription.poll(1, CLEAR_ERROR_SECONDS)
    await subscription.close()


@pytest.mark.parametrize("attempt", ["publish", "subscribe", "topics", "rules", "nobody"])
async def test_a_wrong_password_is_told_in_time(
    secured_kafka: LocalKafka, prefix: str, attempt: str
):
    access = wrong_password(secured_kafka.access("placement"))
    publisher = KafkaPublisher(access, prefix)
    anonymous = KafkaPublisher(KafkaAccess(bootstrap=access.bootstrap), prefix)
    attempts = {
        "publish": lambda: publisher.publish([a_row(WORKLOAD_FACTS)]),
        "subscribe": lambda: KafkaSubscription(access, prefix).assign({(QUEUE_FACTS.name, 0): 0}),
        "topics": lambda: create_topics(access, prefix, TOPICS),
        "rules": lambda: make_grants_so(access, grants(prefix)),
        "nobody": lambda: anonymous.publish([a_row(WORKLOAD_FACTS)]),
    }
    reason = "without a user" if attempt == "nobody" else "muster_placement.*Authentication failed"

    started = time.monotonic()
    with pytest.raises(Transient, match=reason) as caught:
        await attempts[attempt]()

    assert time.monotonic() - started < CLEAR_ERROR_SECONDS
    assert access.password.get_secret_value() not in str(caught.value)
