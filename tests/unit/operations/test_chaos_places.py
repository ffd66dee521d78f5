"""Where faults may be made: simulated nodes, and real ones that carry the label."""

from __future__ import annotations

import json

import msgspec
import pytest

from operations.chaos import doors as doors_module
from operations.chaos import read_model
from operations.chaos.doors import Doors, doors
from operations.chaos.faults import SIGNS, Fault, Strike
from operations.chaos.places import Place, checked
from operations.chaos.site import site
from operations.chaos.told import rows_of
from operations.configuration import Addresses, NotConfigured
from operations.failures import Failure
from shared.core.health.events import HealthEventKind
from shared.core.model.nouns import Gpu, Node
from shared.events.codec import decode_payload
from shared.events.nodes import HealthEventReported
from shared.ports.kafka_access import KafkaAccess

NOW = 1_700_000_000_000
LABELLED = Place(name="gpu-1", gpus=2, simulated=False, allowed=True, cell=1, uuids=("a", "b"))
REFUSED = Place(name="gpu-1", gpus=2, simulated=False, allowed=False)


def a_strike(fault: Fault, **more: int) -> Strike:
    return Strike(fault=fault, node="gpu-1", **more)


@pytest.mark.parametrize("fault", Fault)
def test_a_simulated_node_takes_every_fault(fault):
    place = Place(name="gpu-1", gpus=1)

    assert place == checked(a_strike(fault), place)


@pytest.mark.parametrize("fault", Fault)
def test_a_real_node_without_the_label_takes_none_and_the_answer_says_what_to_do(fault):
    with pytest.raises(Failure) as raised:
        checked(a_strike(fault), REFUSED)

    text = str(raised.value)
    assert "gpu-1 is a real node" in text
    assert text.endswith("`kubectl label node gpu-1 muster.dev/chaos=allowed` allows it")


@pytest.mark.parametrize("fault", Fault)
def test_of_a_real_node_with_the_label_only_signs_can_be_told(fault):
    if fault in SIGNS:
        assert LABELLED == checked(a_strike(fault), LABELLED)
        return
    with pytest.raises(Failure, match=f"gpu-1 is a real node, and {fault.value} needs a simul"):
        checked(a_strike(fault), LABELLED)


def test_a_node_or_gpu_that_is_not_there_is_told():
    with pytest.raises(Failure, match="no node gpu-1"):
        checked(a_strike(Fault.XID), None)
    with pytest.raises(Failure, match="gpu-1 has no GPU 2"):
        checked(a_strike(Fault.XID, gpu=2), LABELLED)


def test_two_errors_of_a_link_are_told_of_a_real_device_as_its_agent_would():
    rows = rows_of(a_strike(Fault.NVLINK, gpu=1), LABELLED, NOW)

    told = [decode_payload(dict(row.headers)["ce_type"].decode(), row.value) for row in rows]
    assert [
        HealthEventReported(
            node="gpu-1",
            gpu=1,
            kind=HealthEventKind.XID,
            at_ms=NOW + number,
            code=74,
            uuid="b",
            detail="muster-ops chaos",
            cell=1,
        )
        for number in range(2)
    ] == told
    assert len({row.event_id for row in rows}) == 2
    assert {("node.facts.v1", 1, "gpu-1")} == {(row.topic, row.partition, row.key) for row in rows}


@pytest.mark.parametrize("labelled", [True, False])
async def test_the_label_is_read_of_the_inventory(monkeypatch, labelled):
    gpus = tuple(Gpu(index=index, uuid=f"u{index}", memory_mib=1) for index in (1, 0))
    node = Node(
        name="gpu-1", flavor="h", product="p", cpu_milli=1, memory_mib=1, gpus=gpus, chaos=labelled
    )
    asked = []

    async def fetch(url: str, sql: str, *values: object) -> list[dict[str, object]]:
        asked.append((url, values))
        return [{"name": "gpu-1", "cell": 3, "body": msgspec.json.encode(node).decode()}]

    monkeypatch.setattr(read_model, "_fetch", fetch)
    way = Doors(fleet_url="", addresses=_addresses())

    found = await way.places(["gpu-1"])

    assert [("postgresql://x", (["gpu-1"],))] == asked
    assert found["gpu-1"] == Place(
        name="gpu-1",
        gpus=2,
        flavor="h",
        simulated=False,
        allowed=labelled,
        cell=3,
        uuids=("u0", "u1"),
    )


async def test_a_node_of_the_fleet_is_not_looked_for_among_the_real_ones(monkeypatch):
    async def call(url: str, method: str, call: object) -> dict[str, object]:
        return {"nodes": [{"name": "n1", "gpus": 4, "ready": False, "flavor": "h100"}]}

    async def fetch(*_: object) -> list[dict[str, object]]:
        raise AssertionError("asked")

    monkeypatch.setattr(doors_module, "_call", call)
    monkeypatch.setattr(read_model, "_fetch", fetch)

    found = await Doors(fleet_url="http://f", addresses=_addresses()).places(["n1"])

    assert {"n1": Place(name="n1", gpus=4, flavor="h100", ready=False)} == found


def test_without_fleet_and_database_there_is_no_door(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(NotConfigured, match="No simulated fleet is known: give --fleet-url"):
        doors("", {})


def test_the_doors_of_a_local_system_are_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state = {"database": "d", "kafka": "k:1", "addresses": {"fleet": "http://f"}}
    (tmp_path / ".muster").mkdir()
    (tmp_path / ".muster/state.json").write_text(json.dumps(state))

    way = doors("", {})

    assert way.addresses is not None
    assert ("http://f", "d") == (way.fleet_url, way.addresses.database)
    assert "http://other" == doors("http://other", {}).fleet_url


def test_no_friday_for_real_machines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTER_DATABASE_URL", "d")
    monkeypatch.setenv("MUSTER_KAFKA_BOOTSTRAP", "k:1")

    with pytest.raises(Failure, match="the nodes are real, and no machine is taken down from"):
        site("")


def _addresses() -> Addresses:
    return Addresses(
        database="postgresql://x", kafka=KafkaAccess(bootstrap="k:1"), prefix="muster"
    )
