"""The newest number of a producer is found among the last records of a topic that others write."""

from __future__ import annotations

from aiokafka import AIOKafkaProducer

from shared.adapters.kafka.newest import LAST_RECORDS_OF_ONE, KafkaNewest
from shared.adapters.kafka.topics import create_topics
from shared.events.topics import QUEUE_FACTS, SUBMISSION_COMMANDS
from shared.ports.kafka_access import KafkaAccess

PLACE = (QUEUE_FACTS.name, 0)
OTHERS = LAST_RECORDS_OF_ONE - 2


def headers(subject: str, number: int, source: str = "gateway") -> list[tuple[str, bytes]]:
    told = {"ce_source": source, "ce_sequence": str(number), "ce_subject": subject}
    return [(name, value.encode()) for name, value in told.items()]


async def test_the_number_of_one_process_is_found_beside_many_of_the_others(
    kafka: str, topic_prefix: str
) -> None:
    access = KafkaAccess(bootstrap=kafka)
    await create_topics(access, topic_prefix, [QUEUE_FACTS])
    producer = AIOKafkaProducer(bootstrap_servers=kafka, acks="all")
    await producer.start()
    name = QUEUE_FACTS.on_broker(topic_prefix)
    told = [headers("http-0", 7), headers("http-0", 9, "quota")]
    told += [headers("http-1", 100 + number) for number in range(OTHERS)]
    for one in told:
        await producer.send(name, b"{}", partition=0, headers=one)
    await producer.stop()

    newest = KafkaNewest(access, topic_prefix)

    assert {PLACE: 7} == await newest.newest([PLACE], "gateway", "http-0")
    assert {PLACE: 99 + OTHERS} == await newest.newest([PLACE], "gateway")
    assert {} == await newest.newest([PLACE], "quota")
    assert {} == await newest.newest([(SUBMISSION_COMMANDS.name, 0)], "gateway")
