"""The fixtures themselves: every test has a database and topics of its own."""

import asyncpg
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.fixtures.servers import Database


@pytest.mark.parametrize("round_number", [1, 2, 3])
def test_a_database_is_fresh(database: Database, round_number: int):
    tables = database.execute("SELECT count(*) FROM pg_tables WHERE tablename = 'left_behind'")
    database.execute("CREATE TABLE left_behind (id int)")

    assert tables == "0"


async def test_a_service_reaches_its_database_as_itself(database: Database):
    connection = await asyncpg.connect(database.url("quota"))
    role = await connection.fetchval("SELECT current_user")
    await connection.close()

    assert role == "muster_quota"


async def test_operations_can_read_and_not_write(database: Database):
    database.execute("CREATE TABLE quota.read_only (id int)")
    connection = await asyncpg.connect(database.url("operations"))

    assert await connection.fetchval("SELECT count(*) FROM quota.read_only") == 0
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute("INSERT INTO quota.read_only VALUES (1)")
    await connection.close()


@pytest.mark.parametrize("round_number", [1, 2])
async def test_topics_of_two_tests_do_not_meet(kafka: str, topic_prefix: str, round_number: int):
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    topic = f"{topic_prefix}.seen"
    before = await admin.list_topics()
    made = await admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    await admin.close()

    assert topic not in before
    assert made.topic_errors[0][1] == 0


_earlier_prefixes: list[str] = []


@pytest.mark.parametrize("round_number", [1, 2])
async def test_topics_of_a_test_are_deleted_after_it(
    kafka: str, topic_prefix: str, round_number: int
):
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    await admin.create_topics(
        [NewTopic(f"{topic_prefix}.seen", num_partitions=1, replication_factor=1)]
    )
    left = set(await admin.list_topics())
    await admin.close()

    assert not [name for name in left if name.startswith(tuple(_earlier_prefixes))]
    _earlier_prefixes.append(f"{topic_prefix}.")
