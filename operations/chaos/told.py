"""Tells of a real device what its driver would tell, by the fact that agents publish."""

from __future__ import annotations

from typing import Final

from operations.chaos.faults import Strike, signs_of
from operations.chaos.places import Place
from operations.configuration import Addresses
from shared.adapters.clock import SystemClock
from shared.adapters.kafka import KafkaPublisher
from shared.events.codec import encode_headers, encode_payload
from shared.events.envelope import Event, event_id
from shared.events.nodes import HealthEventReported
from shared.events.registry import NAME_BY_TYPE
from shared.events.topics import NODE_FACTS
from shared.ports.store import OutboxRow

SOURCE: Final = "chaos"
DETAIL: Final = "muster-ops chaos"


async def tell(addresses: Addresses, strike: Strike, place: Place) -> None:
    """Returns when the log has the signs.

    Raises:
        Transient: the broker is away.
    """
    publisher = KafkaPublisher(addresses.kafka, addresses.prefix)
    try:
        await publisher.publish(rows_of(strike, place, SystemClock().now_ms()))
    finally:
        await publisher.close()


def rows_of(strike: Strike, place: Place, now_ms: int) -> list[OutboxRow]:
    """The signs as records, a millisecond apart: each is a report of its own."""
    return [
        _row(
            HealthEventReported(
                node=place.name,
                gpu=strike.gpu,
                kind=sign.kind,
                at_ms=now_ms + number,
                code=sign.code,
                uuid=place.uuids[strike.gpu],
                detail=DETAIL,
                cell=place.cell,
            ),
            number,
        )
        for number, sign in enumerate(signs_of(strike))
    ]


def _row(fact: HealthEventReported, number: int) -> OutboxRow:
    event = Event(
        id=event_id(fact.at_ms, f"{fact.node}/{fact.gpu}/{fact.kind}", SOURCE, number),
        type=NAME_BY_TYPE[HealthEventReported],
        source=SOURCE,
        subject=fact.node,
        time_ms=fact.at_ms,
        key=fact.node,
        payload=fact,
    )
    return OutboxRow(
        seq=number,
        event_id=event.id,
        topic=NODE_FACTS.name,
        partition=fact.cell,
        key=fact.node,
        headers=encode_headers(event),
        value=encode_payload(fact),
    )
