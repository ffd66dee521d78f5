"""A log that retention has trimmed is no violation: each topic loses its oldest records."""

from __future__ import annotations

from operations.check.log import LogReader
from operations.check.runner import gather, judge
from shared.adapters.kafka.topics import create_topics
from shared.events.topics import (
    NODE_FACTS,
    POD_COMMANDS,
    POD_FACTS,
    QUEUE_FACTS,
    QUOTA_FACTS,
    SUBMISSION_COMMANDS,
    WORKLOAD_FACTS,
)
from shared.ports.kafka_access import KafkaAccess
from tests.fixtures.servers import Database
from tests.support.checker import produce
from tests.support.lost_log import trim
from tests.unit.operations.world import ONE, TWO, healthy

TRIMS = (
    (POD_FACTS, 2),
    (POD_FACTS, 3),
    (QUEUE_FACTS, 1),
    (SUBMISSION_COMMANDS, 3),
    (POD_COMMANDS, 1),
    (WORKLOAD_FACTS, 2),
    (QUOTA_FACTS, 1),
    (WORKLOAD_FACTS, 4),
    (NODE_FACTS, 1),
)
"""Topic, and the first offset that stays, in this order on one log."""


async def test_what_was_trimmed_from_the_log_is_no_violation(
    database: Database, kafka: str, topic_prefix: str
):
    world = healthy()
    database.execute("BEGIN", *world.sql, "COMMIT")
    access = KafkaAccess(bootstrap=kafka)
    await create_topics(access, topic_prefix, [*dict(TRIMS)])
    await produce(kafka, topic_prefix, world.records)
    clients = frozenset({ONE, TWO})
    told = {}
    for topic, before in TRIMS:
        await trim(access, topic_prefix, topic, before)
        reader = LogReader(bootstrap=kafka, prefix=topic_prefix)
        results = judge(await gather(database.url(), reader, clients))
        told[topic.name, before] = {one.id: one.violations for one in results if not one.ok}

    assert told == {(topic.name, before): {} for topic, before in TRIMS}
