"""A team's way in by Kafka: it comes with the team, works at once, and goes with it."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deploy.local.kafka import LocalKafka
from deploy.local.processes import LocalError
from shared.adapters.kafka import KafkaPublisher
from shared.adapters.kafka.administration import make_grants_so
from shared.events.grants import grants
from shared.events.topics import team_submissions
from shared.ports.errors import Transient
from tests.fixtures.servers import Database
from tests.support.gateway import Gateway, Reply, running_gateway
from tests.support.kafka_access import a_row, team_access

ASKED = {"Cache-Control": "no-store"}


@pytest.fixture
async def gateway(
    secured_kafka: LocalKafka, database: Database, topic_prefix: str
) -> AsyncIterator[Gateway]:
    await make_grants_so(secured_kafka.administrator, grants(topic_prefix))
    own, teams = secured_kafka.access("gateway"), secured_kafka.access("teams")
    async with running_gateway(
        own.bootstrap,
        database.url("gateway"),
        topic_prefix,
        administrator=secured_kafka.administrator,
        kafka_security_protocol=own.protocol,
        kafka_user=own.user,
        kafka_password=own.password,
        kafka_admin_user=teams.user,
        kafka_admin_password=teams.password,
    ) as running:
        yield running


async def sends(broker: LocalKafka, gateway: Gateway, made: Reply, *, seconds: float = 0) -> str:
    """What becomes of a record that the team writes: "sent", or why not."""
    user = made.body.get("kafka_user", made.body)
    publisher = KafkaPublisher(team_access(broker, user), gateway.settings.topic_prefix)
    try:
        await publisher.publish([a_row(team_submissions("red"))])
    except Transient as error:
        return str(error)
    finally:
        await publisher.close()
    return "sent"


async def password(gateway: Gateway, **options: str) -> Reply:
    return await gateway.call("POST", "/v1/teams/red/kafka-password", {}, **options)


async def test_a_new_team_can_send_at_once(secured_kafka: LocalKafka, gateway: Gateway):
    made = await gateway.call("PATCH", "/v1/teams/red", {})
    again = await gateway.call("PATCH", "/v1/teams/red", {})

    assert (201, "no-store") == (made.status, made.headers["Cache-Control"])
    assert "kafka_user" not in again.body
    assert "SCRAM-SHA-512" == made.body["kafka_user"]["mechanism"]
    assert "sent" == await sends(secured_kafka, gateway, made)


async def test_a_new_password_replaces_the_one_before(
    secured_kafka: LocalKafka, gateway: Gateway, database: Database
):
    made = await gateway.call("PATCH", "/v1/teams/red", {})
    changed = await password(gateway)

    assert (201, "no-store") == (changed.status, changed.headers["Cache-Control"])
    assert "sent" == await sends(secured_kafka, gateway, changed)
    assert "Authentication failed" in await sends(secured_kafka, gateway, made)
    audit = database.execute("SELECT subject, after FROM gateway.audit WHERE kind = 'kafka-user'")
    assert "kafka-user/red|new password" == audit
    everything = database.execute("SELECT row_to_json(a) FROM gateway.audit a")
    assert changed.body["password"] not in everything


async def test_a_team_without_kafka_has_no_user(secured_kafka: LocalKafka, gateway: Gateway):
    made = await gateway.call("PATCH", "/v1/teams/red", {})
    await gateway.call("PATCH", "/v1/teams/red", {"kafka": False})

    refused = await password(gateway)

    assert (409, "no-kafka") == (refused.status, refused.body["type"].rpartition(":")[2])
    assert "Authentication failed" in await sends(secured_kafka, gateway, made)
    await gateway.call("PATCH", "/v1/teams/red", {"kafka": True})
    assert "sent" == await sends(secured_kafka, gateway, await password(gateway))


async def test_parallel_makers_of_one_team_get_one_password_that_works(
    secured_kafka: LocalKafka, gateway: Gateway
):
    replies = await asyncio.gather(*(gateway.call("PATCH", "/v1/teams/red", {}) for _ in range(5)))

    made = [reply for reply in replies if reply.status == 201]
    assert 1 == len([reply for reply in replies if "kafka_user" in reply.body])
    assert "sent" == await sends(secured_kafka, gateway, made[0])


async def test_only_the_team_and_operators_get_a_password(gateway: Gateway):
    await gateway.call("PATCH", "/v1/teams/red", {})
    await gateway.call("PATCH", "/v1/teams/blue", {})
    keys = {
        (team, role): await gateway.key(team, role)
        for team, role in (("red", "admin"), ("red", "member"), ("blue", "admin"))
    }

    found = {of: (await password(gateway, key=key)).status for of, key in keys.items()}

    assert {("red", "admin"): 201, ("red", "member"): 403, ("blue", "admin"): 404} == found


async def test_where_no_users_are_kept_none_is_made(
    kafka: str, database: Database, topic_prefix: str
):
    async with running_gateway(kafka, database.url("gateway"), topic_prefix) as gateway:
        made = await gateway.call("PATCH", "/v1/teams/red", {})
        asked = await password(gateway)

    assert (201, None) == (made.status, made.body["kafka_user"])
    assert (409, "no-kafka-users") == (asked.status, asked.body["type"].rpartition(":")[2])


def test_what_holds_a_password_is_for_its_owner_alone(secured_kafka: LocalKafka):
    for name in ("password", "server.properties"):
        mode = (secured_kafka.folder / name).stat().st_mode
        assert 0o600 == stat.S_IMODE(mode), name


def test_a_broker_that_was_made_without_users_is_not_taken_over(tmp_path: Path):
    (tmp_path / "kafka" / "data").mkdir(parents=True)
    (tmp_path / "kafka" / "data" / "meta.properties").touch()

    with pytest.raises(LocalError, match="make purge"):
        LocalKafka(tmp_path / "kafka", secured=True).start()
