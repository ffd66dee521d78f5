"""I20 and the dead letters of I15: what stands still though nothing is in its way."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest

from operations.check.model import Evidence, Record
from operations.check.waiting import check_waiting
from tests.fixtures.servers import Database
from tests.support.checker import read, violated
from tests.unit.operations import world as w
from tests.unit.operations.world import ONE, TWO, World, healthy

WAITS = "w" + "d" * 26
BEHIND = "w" + "e" * 26
PLACED_ON = f'{{"node":"{w.NODE}"}}'
FITS = (
    f"{WAITS}: fits into what is free of flavor {w.FLAVOR} and its quota, and is not placed;"
    " it is told: "
)
SILENT = f"{WAITS}: waits, and nothing says why"


def waiting(workload: str = WAITS, gpus: int = 1, reason: str = "", **wishes: object) -> list[str]:
    """A workload that is queued and known to the gateway."""
    pods = [{"gpu": {"count": gpus}, "cpu_milli": 1000, "memory_mib": 1024}]
    body = json.dumps({"id": workload, "spec": {"pod_sets": pods, **wishes}})
    return [
        w.workload_row(workload, "queued", 1, {}),
        f"UPDATE placement.workload SET body = '{body}', placement = '' WHERE id = '{workload}'",
        (
            "INSERT INTO gateway.workload (id, team, submitted_at_ms, version, state,"
            f" changed_at_ms, reason) VALUES ('{workload}', '{w.TEAM}', 0, 1, 'queued', 0,"
            f" '{reason}')"
        ),
    ]


def _seen(**changes: object) -> str:
    node = {"name": w.NODE, "flavor": w.FLAVOR, "gpus": [{"index": 0}, {"index": 1}], **changes}
    return f"UPDATE placement.node SET body = '{json.dumps(node)}'"


CASES = {
    "one GPU is free": (waiting(), [f"{FITS}nothing"]),
    "it is told that there is no room": (
        waiting(reason="InsufficientCapacity"),
        [f"{FITS}InsufficientCapacity"],
    ),
    "more than is free": (waiting(gpus=2, reason="InsufficientCapacity"), []),
    "more than is free, and nothing is told": (waiting(gpus=2), [SILENT]),
    "its budget is spent": (waiting(reason="BudgetSpent"), []),
    "it has a wish that is not judged": (
        waiting(reason="NoMatchingFlavor", topology={"required": "rack"}),
        [],
    ),
    "the room is for one before it": (
        [*waiting("w" + "a" * 25 + "b"), *waiting(reason="InsufficientCapacity")],
        [FITS.replace(WAITS, "w" + "a" * 25 + "b") + "nothing"],
    ),
    "one before it in its queue may have what is left": (
        [
            *waiting("w" + "a" * 25 + "b", gpus=2, reason="InsufficientCapacity"),
            *waiting(reason="InsufficientCapacity"),
        ],
        [],
    ),
    "its quota is used up": (
        [
            *waiting(reason="WaitingForQuota"),
            "UPDATE placement.usage SET gpu_milli_limit = 1999, gpu_milli_ceiling = 1999",
        ],
        [],
    ),
    "its queue has no quota": (
        [*waiting(reason="WaitingForQuota"), "DELETE FROM placement.usage"],
        [],
    ),
    "the cohort above has no quota left": (
        [
            *waiting(reason="WaitingForQuota"),
            "UPDATE placement.quota_node SET parent = 'all'",
            (
                "INSERT INTO placement.quota_node (name, kind, parent, version, body)"
                " VALUES ('all', 'cohort', '', 1, '')"
            ),
        ],
        [],
    ),
    "the node is cordoned": (
        [
            *waiting(reason="NodesUnhealthy"),
            f"INSERT INTO placement.cordon VALUES ('{w.NODE}', '', 1)",
        ],
        [],
    ),
    "the node is dedicated": (
        [*waiting(reason="InsufficientCapacity"), _seen(pool="others")],
        [],
    ),
    "the node is kept for a promise": (
        [
            *waiting(reason="InsufficientCapacity"),
            f"INSERT INTO placement.promise VALUES ('wother', '{PLACED_ON}', 1)",
        ],
        [],
    ),
    "the node is not ready": (
        [*waiting(reason="NodesUnhealthy"), "UPDATE placement.node SET ready = false"],
        [],
    ),
    "the GPU is broken": (
        [
            *waiting(reason="InsufficientCapacity"),
            "UPDATE placement.gpu SET healthy = false WHERE gpu = 1",
        ],
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_fits_and_waits_is_found_and_nothing_else(database: Database, case: str):
    statements, told = CASES[case]
    database.execute("BEGIN", *healthy().sql, _seen(), *statements, "COMMIT")

    result = asyncio.run(check_waiting(database.url(), settle_seconds=0))

    assert [f"{one.subject}: {one.detail}" for one in result.violations] == told
    assert result.checked >= 1


async def test_what_is_placed_before_its_time_is_over_waited_not_in_vain(database: Database):
    database.execute("BEGIN", *healthy().sql, _seen(), *waiting(), "COMMIT")
    checking = asyncio.create_task(check_waiting(database.url(), settle_seconds=10))
    await asyncio.sleep(1)
    database.execute(f"DELETE FROM placement.workload WHERE id = '{WAITS}'")

    assert (await checking).ok


# ── dead letters ─────────────────────────────────────────────────────────────


def _nominated(world: World, workload: str) -> Record:
    told = {"workload_id": workload}
    cause = world.records[0]
    record = world.tell("quota", "quota.facts.v1", "workload.nominated", told, cause=cause)
    return dataclasses.replace(record, subject=workload)


def _dead(world: World, rows: dict, record: Record, reader: str = "placement") -> Evidence:
    evidence = world.evidence(rows)
    evidence.log.dead = {(record.topic, record.partition, record.offset): frozenset({reader})}
    return evidence


def _of(world: World, kind: str, workload: str) -> Record:
    kind = f"muster.{kind}.v1"
    return next(one for one in world.records if one.type == kind and one.subject == workload)


@pytest.mark.parametrize(
    ("kind", "workload", "state", "reader", "found"),
    [
        ("bind.workload", ONE, "placed", "binder", True),
        ("bind.workload", ONE, "placed", "monitoring", False),
        ("bind.workload", TWO, "succeeded", "binder", False),
        ("pods.running", ONE, "bound", "placement", True),
        ("workload.queued", ONE, "queued", "quota", True),
        ("workload.queued", ONE, "running", "quota", False),
        ("workload.nominated", ONE, "queued", "placement", True),
        ("workload.nominated", ONE, "queued", "gateway", False),
        ("workload.nominated", ONE, "running", "placement", False),
    ],
)
def test_a_dead_letter_that_a_living_workload_waits_for(
    database: Database, kind: str, workload: str, state: str, reader: str, *, found: bool
):
    world = healthy()
    _nominated(world, workload)
    moved = f"UPDATE placement.workload SET state = '{state}' WHERE id = '{workload}'"
    rows = read(database, world, moved).rows
    record = _of(world, kind, workload)

    told = violated(_dead(world, rows, record, reader)).get("I15", [])

    place = f"{record.topic}[0]@{record.offset}"
    detail = f"muster.{kind}.v1 at {place} is in the dead letters of {reader}"
    assert told == ([f"{workload}: is {state}, and {detail}: muster-ops dlq replay"] * found)


def test_a_letter_that_was_sent_again_is_no_violation(database: Database):
    world = healthy()
    first = _nominated(world, ONE)
    again = dataclasses.replace(first, offset=first.offset + 1, redriven=True)
    world.records.append(again)
    waits = f"UPDATE placement.workload SET state = 'queued' WHERE id = '{ONE}'"
    rows = read(database, world, waits).rows

    assert "I15" not in violated(_dead(world, rows, first))
