"""What is remembered is not looked up, and the same messages give the same outcome."""

from typing import Any

from services.admission import known
from services.admission.handler import AdmissionHandler
from shared.events.envelope import workload_id
from shared.events.workloads import (
    CancelWorkload,
)
from tests.unit.admission.builders import TEAM, a_spec
from tests.unit.admission.support import ID, NoRows, Office, a_queue_document, kinds, received


async def test_no_look_up_is_needed_while_memory_is_complete():
    handler = AdmissionHandler()
    reader = NoRows()
    await handler.load(reader)
    asked = reader.asked

    await handler.prepare([received(CancelWorkload(workload_id=ID, team=TEAM))], reader)

    assert reader.asked == asked


async def test_what_memory_forgot_is_looked_up_once_for_a_batch(monkeypatch):
    monkeypatch.setattr(known, "KNOWN_MAX", 2)
    office = Office()
    for i in range(4):
        office.http(key=f"k{i}")
    row: dict[str, Any] = {
        "id": workload_id(TEAM, "k0"),
        "team": TEAM,
        "body_hash": "h",
        "state": "accepted",
        "message": "",
        "errors": "",
        "on_shares": False,
    }
    reader = NoRows([row])
    message = office.message(CancelWorkload(workload_id=row["id"], team=TEAM))

    await office.handler.prepare([message, message], reader)
    outcome = office.handler.decide([message], office.now_ms)

    assert reader.asked == 1
    assert kinds(outcome) == ["CancelWorkload"]


def test_the_same_messages_give_the_same_outcome():
    def play():
        office = Office(nodes=2)
        office.kafka()
        office.http(a_spec(gpus=9), key="k2")
        office.apply(a_queue_document(version=2, gpus=1))
        office.http(a_spec(gpus=2), key="k3")
        office.pass_ms(5000)
        return [(one.emits, one.changes, one.writes) for one in office.outcomes]

    assert play() == play()
