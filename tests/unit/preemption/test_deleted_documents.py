"""What is deleted sets no rules any more, but what was protected stays protected."""

from __future__ import annotations

from shared.core.model.team_policy import IdlePolicy
from shared.events.organisation import (
    CohortApplied,
    DocumentDeleted,
    PriorityClassApplied,
    TeamApplied,
)
from tests.unit.preemption.world import Cell


def deleted(kind: str, name: str, version: int = 9) -> DocumentDeleted:
    return DocumentDeleted(kind=kind, name=name, version=version)


def test_a_deleted_queue_and_cohort_have_no_quota():
    cell = Cell()
    cell.hear(CohortApplied(name="pool", version=1))
    cell.queue("q", 8)
    tree = cell.handler.world.tree
    before = tree.node("q").owned("h100")

    cell.hear(deleted("queue", "q"))
    cell.hear(deleted("cohort", "pool"))

    assert before[0] == 8000
    assert tree.node("q").owned("h100")[0] == 0
    document = tree.node("pool").document
    assert document is not None
    assert document.version == 9


def test_the_rules_of_a_deleted_team_are_gone():
    cell = Cell()
    idle = IdlePolicy(release_after_seconds=3_600)
    cell.hear(
        TeamApplied(
            name="red", version=1, default_queue="q", idle=idle, loss_gpu_seconds_per_hour=1
        )
    )
    memory = cell.handler.memory
    before = (dict(memory.policies), dict(memory.loss_limits))

    cell.hear(deleted("team", "red"))

    assert before == ({"red": idle}, {"red": 1})
    assert (memory.policies, memory.loss_limits) == ({}, {})


def test_work_of_a_deleted_class_stays_protected():
    cell = Cell()
    cell.hear(PriorityClassApplied(name="vital", version=1, value=9, protected=True))

    cell.hear(deleted("priority_class", "vital"))
    cell.hear(deleted("flavor", "h100"))

    assert cell.handler.memory.is_protected("vital")
