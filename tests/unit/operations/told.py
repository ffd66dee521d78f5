"""Facts of gangs as the log would tell them, numbered as they are told."""

from collections.abc import Sequence
from typing import Any

from operations.check.model import Evidence, Log, Record, Row

ONE, TWO = "w" + "a" * 26, "w" + "b" * 26


def record(number: int, kind: str, payload: dict[str, Any]) -> Record:
    entity = kind.split(".", maxsplit=1)[0]
    topic = {"quota": "quota.facts.v1", "pods": "pod.facts.v1"}.get(entity, "workload.facts.v1")
    return Record(
        topic=topic,
        partition=0,
        offset=number,
        id=str(number),
        type=f"muster.{kind}.v1",
        source="test",
        sequence=number,
        time_ms=100_000 + number,
        payload=payload,
    )


def holds(kind: str, gpus: range, workload: str = ONE) -> tuple[str, dict[str, Any]]:
    """`workload` has a whole GPU for each of its ranks 0..n-1."""
    pods = [
        {
            "pod_set": "main",
            "rank": rank,
            "node": "n1",
            "shares": [{"index": gpu, "mask": 255, "milli": 1000, "memory_mib": 0}],
        }
        for rank, gpu in enumerate(gpus)
    ]
    charge = {"gpu_milli": 1000 * len(pods)}
    placement = {"flavor": "f", "pods": pods, "charge": charge}
    return kind, {"workload_id": workload, "attempt": 1, "queue": "q", "placement": placement}


def quota(gpus: int) -> tuple[str, dict[str, Any]]:
    flavor = {"flavor": "f", "nominal": {"gpu_milli": 1000 * gpus}}
    return "quota.changed", {"name": "q", "kind": "queue", "parent": "", "flavors": [flavor]}


def queued(least: int) -> tuple[str, dict[str, Any]]:
    pod_set = {"name": "main", "count": 4, "min_count": least}
    return "workload.queued", {"workload": {"id": ONE, "spec": {"pod_sets": [pod_set]}}}


def answer(number: int) -> tuple[str, dict[str, Any]]:
    return "pods.resized", {"workload_id": ONE, "attempt": 1, "number": number}


def evidence(*told: tuple[str, dict[str, Any]]) -> Evidence:
    records = [record(number, *one) for number, one in enumerate(told)]
    ends = {(one.topic, one.partition): len(records) for one in records}
    read = {"topic": "quota.facts.v1", "partition": 0, "next_offset": len(records)}
    rows: dict[str, Sequence[Row]] = {
        "quota_units": [],
        "consumer_offset": [{"schema": "placement", **read}],
    }
    return Evidence(rows=rows, log=Log(records=records, ends_before=ends))


def details(check: Any, *told: tuple[str, dict[str, Any]]) -> list[str]:
    return [one.detail for one in check(evidence(*told)).violations]


PLACED, RESIZED = "workload.placed", "workload.resized"
