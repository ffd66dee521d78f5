"""Whether idle work is released is decided by its team's policy, while the evidence is fresh."""

from shared.core.model.lifecycle import State
from shared.core.model.reason import Reason
from shared.core.model.team_policy import IdlePolicy
from shared.core.nodes.idleness import FRESH_MS
from shared.events.idleness import IdlenessEnded, IdlenessNoticed
from shared.events.organisation import PriorityClassApplied, TeamApplied
from shared.events.plans import ReleaseIdleWorkload
from shared.events.workloads import ReprioritiseWorkload
from tests.support.placement_driver import command
from tests.unit.preemption.world import Cell

RELEASE_MS = 120_000


def a_cell(release_seconds=RELEASE_MS // 1000, **spec):
    """One workload that runs in a team with a policy."""
    cell = Cell()
    cell.queue("q", 8)
    policy(cell, release_seconds)
    cell.run("w", "q", gpus=2, **spec)
    return cell


def policy(cell, release_seconds, version=1):
    idle = IdlePolicy(warn_after_seconds=60, release_after_seconds=release_seconds)
    cell.hear(TeamApplied(name="red", version=version, default_queue="q", idle=idle))


def notice(cell, idle_ms=RELEASE_MS, *, ago_ms=0, attempt=1, **changed):
    until_ms = cell.driver.now_ms - ago_ms
    fields = {
        "workload_id": "w",
        "team": "red",
        "queue": "q",
        "attempt": attempt,
        "since_ms": until_ms - idle_ms,
        "until_ms": until_ms,
        "utilization_percent": 0,
        "percent_below": 5,
        "release_at_ms": until_ms - idle_ms + RELEASE_MS,
    }
    cell.hear(IdlenessNoticed(**(fields | changed)))


def released(cell):
    """Names of what a turn releases."""
    before = len(cell.plans)
    cell.turn()
    new = cell.plans[before:]
    assert all(isinstance(one, ReleaseIdleWorkload) for one in new)
    return [one.workload_id for one in new]


def test_work_that_was_idle_for_too_long_is_released_once():
    cell = a_cell()
    notice(cell)

    assert ["w"] == released(cell)

    cell.leave("w")
    assert [State.HELD] == cell.states("w")
    assert [] == released(cell)


def test_a_warning_alone_releases_nothing():
    cell = a_cell()
    notice(cell, RELEASE_MS - 1)

    assert cell.handler.next_due_ms() is None
    assert [] == released(cell)


def test_evidence_that_is_old_releases_nothing():
    cell = a_cell()
    notice(cell, ago_ms=FRESH_MS + 1)

    assert [] == released(cell)

    notice(cell, RELEASE_MS + 60_000)
    assert ["w"] == released(cell)


def test_work_that_is_used_again_in_time_stays():
    cell = a_cell()
    notice(cell)

    cell.hear(
        IdlenessEnded(
            workload_id="w",
            team="red",
            queue="q",
            attempt=1,
            since_ms=0,
            ended_at_ms=1,
            reason=Reason.USED,
        )
    )

    assert [] == released(cell)


def test_the_policy_of_now_decides():
    cell = a_cell()
    notice(cell)

    policy(cell, 2 * RELEASE_MS // 1000, version=2)

    assert [] == released(cell)


def test_without_a_policy_its_own_time_out_decides():
    cell = a_cell(idle_timeout_seconds=60)
    cell.hear(TeamApplied(name="red", version=2, default_queue="q"))
    notice(cell, RELEASE_MS)

    assert ["w"] == released(cell)


def test_a_protected_class_is_never_released():
    cell = a_cell(priority_class="vital")
    cell.hear(PriorityClassApplied(name="vital", version=1, value=9, protected=True))
    notice(cell)

    assert [] == released(cell)


def test_the_class_that_it_was_given_since_decides_whether_it_is_released():
    cell = a_cell(priority_class="vital")
    cell.hear(PriorityClassApplied(name="vital", version=1, value=9, protected=True))
    cell.send(command(ReprioritiseWorkload, "w", priority_class="low", priority=1))
    notice(cell)

    assert ["w"] == released(cell)
    assert [State.EVICTING] == cell.states("w")


def test_another_attempt_or_what_stops_already_is_left_alone():
    cell = a_cell()
    notice(cell, attempt=2)
    assert [] == released(cell)

    notice(cell)
    assert ["w"] == released(cell)
    notice(cell)
    assert [] == released(cell)


async def test_what_was_noticed_before_a_restart_is_released_after_it():
    cell = a_cell()
    notice(cell)
    await cell.reload()

    assert ["w"] == released(cell)
    await cell.reload()
    assert [] == released(cell)
