"""The checker finds each violation planted in the log, by the invariant that forbids it."""

import dataclasses
from collections.abc import Callable

import pytest

from tests.support.checker import violated
from tests.unit.operations import world as w
from tests.unit.operations.world import NO, ONE, TWO, World, healthy


def _append(kind: str, payload: dict, topic: str = "workload.facts.v1", cause: int = 0):
    def plant(world: World) -> None:
        source = "binder" if topic == "pod.facts.v1" else "placement"
        world.tell(source, topic, kind, payload, cause=world.records[cause])

    return plant


def _change(kind: str, **changes) -> Callable[[World], None]:
    def plant(world: World) -> None:
        index = next(i for i, one in enumerate(world.records) if one.type == f"muster.{kind}.v1")
        world.records[index] = dataclasses.replace(world.records[index], **changes)

    return plant


def _drop(kind: str) -> Callable[[World], None]:
    def plant(world: World) -> None:
        world.records = [one for one in world.records if one.type != f"muster.{kind}.v1"]

    return plant


def _swap(world: World) -> None:
    facts = [i for i, one in enumerate(world.records) if one.topic == "workload.facts.v1"]
    first, second = facts[0], facts[1]
    one, two = world.records[first], world.records[second]
    world.records[first] = dataclasses.replace(two, offset=one.offset)
    world.records[second] = dataclasses.replace(one, offset=two.offset)


def _placed(workload: str, placed: dict, version: int = 5, attempt: int = 2) -> dict:
    return w.fact(workload, version, "placed", attempt, placement=placed, placed_at_ms=1)


LOG_PLANTS = {
    "a GPU is placed before it was released": (
        "I1",
        _append("workload.placed", _placed(TWO, w.ON_GPU_0)),
    ),
    "a share is placed beside a whole": (
        "I1",
        _append(
            "workload.placed",
            _placed(TWO, w.placement(w.pod(0, w.share(mask=0, milli=1, memory_mib=1)))),
        ),
    ),
    "the queue is above its limit for a moment": (
        "I2",
        _append(
            "workload.placed",
            _placed(TWO, w.placement(w.pod(0), charge={"gpu_milli": 1001, "cpu_milli": 0})),
        ),
    ),
    "half a gang is placed": (
        "I3",
        _append("workload.placed", _placed(TWO, w.placement(w.pod(0)))),
    ),
    "half a gang is bound": (
        "I3",
        _append(
            "bind.workload",
            {"workload_id": TWO, "attempt": 1, "epoch": 1, "placement": w.placement(w.pod(1))},
            "pod.commands.v1",
        ),
    ),
    "a rank is placed twice": (
        "I3",
        _append("workload.placed", _placed(TWO, w.placement(w.pod(0), w.pod(0)))),
    ),
    "a submission was read and has no outcome": ("I4", _drop("workload.queued")),
    "a workload ends twice": (
        "I4",
        _append("workload.failed", w.fact(TWO, 5, "failed")),
    ),
    "devices are released while pods may live": ("I5", _drop("pods.finished")),
    "the log tells a version twice with two states": (
        "I8",
        _append("workload.bound", w.fact(ONE, 3, "bound")),
    ),
    "the log tells a state after the end": (
        "I8",
        _append("workload.running", w.fact(TWO, 5, "running", running_at_ms=1)),
    ),
    "a command of an old epoch follows a newer one": (
        "I9",
        _change(
            "bind.workload",
            payload={"workload_id": ONE, "attempt": 1, "epoch": 5, "placement": w.ON_GPU_0},
        ),
    ),
    "two facts of a producer change places": ("I10", _swap),
    "an acknowledged fact is missing in the log": ("I11", _drop("workload.running")),
    "a fact is in the log that no outbox has": (
        "I11",
        _change("pods.running", id="00000000-0000-0000-0000-00000000beef"),
    ),
    "one submission gives two workloads": (
        "I12",
        _append(
            "workload.queued",
            {"workload": {"id": ONE, "team": w.TEAM, "spec": w.spec("one")}},
            "queue.facts.v1",
        ),
    ),
    "one attempt is placed twice": (
        "I12",
        _append("workload.placed", _placed(TWO, w.HALVES, attempt=1)),
    ),
    "pods are told that nobody commanded": (
        "I12",
        _append("pods.running", {"workload_id": TWO, "attempt": 9}, "pod.facts.v1"),
    ),
    "something is bound that was never placed": ("I12", _drop("workload.placed")),
    "something is queued that nobody submitted": ("I12", _drop("submit.workload")),
    "a fact has a cause that never was": (
        "I12",
        _change("workload.running", causation_id="00000000-0000-0000-0000-00000000dead"),
    ),
    "the ledger has less memory than was reported": (
        "I13",
        _change(
            "node-inventory.reported",
            payload={
                "generation": 1,
                "node": {
                    "name": w.NODE,
                    "cpu_milli": 64_000,
                    "memory_mib": 300_000,
                    "gpus": [{"index": i, "memory_mib": 81_920} for i in range(2)],
                },
            },
        ),
    ),
}


@pytest.mark.parametrize("plant", LOG_PLANTS)
def test_what_is_planted_in_the_log_is_found(clean_rows, plant: str):
    expected, change = LOG_PLANTS[plant]
    world = healthy()
    change(world)

    found = violated(world.evidence(clean_rows))

    assert expected in found, found


def test_an_acknowledgement_that_muster_does_not_know_is_found(clean_rows):
    evidence = healthy().evidence(clean_rows)
    evidence.acknowledged = frozenset({ONE, NO, "w" + "z" * 26})

    assert list(violated(evidence)) == ["I4"]


def test_a_copy_in_the_log_is_no_violation(clean_rows):
    world = healthy()
    world.records += [
        dataclasses.replace(one, offset=one.offset + 100)
        for one in world.records
        if one.topic == "workload.facts.v1"
    ]

    assert violated(world.evidence(clean_rows)) == {}


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
def test_a_clock_that_steps_is_no_violation(clean_rows, step_ms: int):
    """Quota holds by the order in which placement took it up."""
    world = healthy()
    _change("quota.changed", time_ms=w.START_MS + step_ms)(world)

    assert violated(world.evidence(clean_rows)) == {}


def test_a_limit_holds_from_the_unit_in_which_it_was_taken_up(clean_rows):
    """The last fact is of unit 9, the lower limit of unit 8, whatever their clocks say."""
    world = healthy()
    _append("workload.placed", _placed(TWO, w.placement(w.pod(0), w.pod(1))), cause=2)(world)
    lowered = {**world.records[1].payload, "version": 2, "flavors": []}
    record = world.tell("quota-agent", "quota.facts.v1", "quota.changed", lowered, in_outbox=False)
    units = [{"event_id": record.id, "unit": 8}, {"event_id": world.records[2].id, "unit": 9}]
    held = {"workload_id": TWO, "attempt": 2, "queue": w.QUEUE, "flavor": w.FLAVOR, **w.CHARGE}
    rows = {**clean_rows, "charged": [*clean_rows["charged"], held], "quota_units": units}

    assert "I2" in violated(world.evidence(rows))
    units[0]["unit"] = 10
    assert "I2" not in violated(world.evidence(rows))
