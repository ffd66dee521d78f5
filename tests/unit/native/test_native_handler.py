"""What the native service submits, cancels and tells, on news that are handed to it."""

import asyncio

import pytest

from services.native.handler import DELETED_MS
from services.native.judging import ASK_AGAIN_MS, RESTART_MS
from services.native.messages import GroupForgotten
from shared.core.model.decision import FieldError
from shared.core.model.lifecycle import State
from shared.core.model.reason import Reason
from shared.core.model.value import replace
from shared.events import organisation, quotas, workloads
from shared.ports.native import NativeHeard, NativeInterrupted
from tests.support.native_world import (
    GONE_MS,
    NO_JOB,
    START_MS,
    TEAM,
    a_pod,
    changed,
    gone,
    job,
    listed,
    of_job,
    refused,
)

GROUP = {"muster.dev/group": "g"}
SIZE_OF_FIVE = {"muster.dev/group-size": "5"}


async def test_a_pod_is_submitted_once(world):
    (one,) = world.hear(listed(a_pod()))

    assert ("vision", "red/pod/u-p", "pods") == (one.team, one.pod_group, one.door)
    assert "the owner of its pods" == one.by
    assert [] == world.hear(changed(a_pod(claimed=True)), changed(a_pod(claimed=True, node="n")))
    world.make()
    await world.load()
    assert [] == world.hear(listed(a_pod(claimed=True, node="n")))
    assert [] == world.hear(changed(a_pod()))


async def test_nothing_is_decided_before_all_pods_are_listed(world):
    world.hear(listed(a_pod()))
    world.make()
    await world.load()

    assert not world.handler.ready
    assert [] == world.hear(changed(a_pod("other")))
    assert None is world.handler.next_due_ms()
    assert 1 == len(world.hear(listed(a_pod(), a_pod("other"))))
    assert world.handler.ready


async def test_it_is_ready_while_every_kind_is_heard(world):
    world.hear(listed(a_pod()))
    for kind in ("jobs", "jobsets"):
        world.source.tell(NativeInterrupted(kind=kind, problem="429"))
    assert not world.handler.ready

    world.source.tell(NativeHeard(kind="jobs"))
    world.hear(job(), changed(a_pod("other")))
    assert not world.handler.ready, "news of others are none of JobSets"
    world.source.tell(NativeHeard(kind="jobsets"))
    assert world.handler.ready, "though no JobSet is there to be told of"


async def test_a_gang_is_submitted_when_it_is_whole(world):
    assert [] == world.hear(job(), listed(of_job(1)))
    assert [("j-1", "WaitingForPods")] == await world.told()

    (one,) = world.hear(changed(of_job(0)))

    assert 2 == one.spec.pod_sets[0].count
    assert {"u0", "u1"} == set(world.rows.groups["red/job/j1"]["uids"])


async def test_a_job_may_be_known_after_its_pods(world):
    assert [] == world.hear(listed(of_job(0), of_job(1)))
    assert world.handler.next_due_ms() > world.at_ms, "it is waited for, not asked about for ever"

    assert 1 == len(world.hear(job()))


async def test_a_pod_that_is_gated_is_not_ours_yet(world):
    assert [] == world.hear(listed(a_pod(gates=("kueue.x-k8s.io/admission",))))

    assert 1 == len(world.hear(changed(a_pod())))


async def test_a_namespace_without_a_team_is_told_so_until_it_has_one(world):
    assert [] == world.hear(listed(a_pod(namespace="blue")))
    assert [("p", "NamespaceOfNoTeam")] == await world.told()

    world.fact(replace_team(name="blue", namespace=""))
    (one,) = world.due()
    assert "blue" == one.team


async def test_a_team_that_is_deleted_has_no_namespace(world):
    world.fact(organisation.DocumentDeleted(kind="team", name="vision", version=2))
    world.fact(TEAM)

    assert [] == world.hear(listed(a_pod()))


async def test_a_priority_class_of_muster_is_taken_from_the_pod(world):
    world.fact(organisation.PriorityClassApplied(name="high", version=1, value=7))

    (one,) = world.hear(listed(a_pod(priority_class="high")))

    assert "high" == one.spec.priority_class


async def test_a_lone_pod_that_is_gone_is_cancelled_and_forgotten(world):
    (one,) = world.hear(listed(a_pod()))

    (end,) = world.hear(gone(a_pod()))

    assert isinstance(end, workloads.CancelWorkload)
    assert one.workload_id == end.workload_id
    world.over(one.workload_id, workloads.WorkloadCancelled)
    assert [] == world.due()
    assert {} == world.rows.groups


async def test_a_group_that_may_come_back_is_cancelled_after_a_while(world):
    grouped = {"labels": {"muster.dev/group": "g"}, "annotations": {"muster.dev/group-size": "1"}}
    world.hear(listed(a_pod(**grouped)))

    assert [] == world.hear(gone(a_pod()))
    assert START_MS + GONE_MS == world.handler.next_due_ms()
    world.at_ms += GONE_MS
    assert 1 == len(world.due())


@pytest.mark.parametrize("last", [job(over=True), NO_JOB], ids=["over", "deleted"])
async def test_a_job_that_pauses_keeps_its_workload_until_it_is_over(world, last):
    world.hear(job(), listed(of_job(0), of_job(1)))
    world.hear(gone(of_job(0)), gone(of_job(1)))
    world.at_ms += GONE_MS

    assert [] == world.due()
    assert [] == world.hear(job())
    (end,) = world.hear(last)
    assert isinstance(end, workloads.CancelWorkload)


@pytest.mark.parametrize("job_first", [True, False])
async def test_a_job_that_is_deleted_with_its_pods_is_soon_cancelled(world, job_first):
    (one,) = world.hear(job(), listed(of_job(0), of_job(1)))
    pods = [gone(of_job(0)), gone(of_job(1))]

    assert [] == world.hear(*([NO_JOB, *pods] if job_first else [*pods, NO_JOB]))
    assert world.at_ms + DELETED_MS == world.handler.next_due_ms()
    world.at_ms += DELETED_MS
    (end,) = world.due()

    assert isinstance(end, workloads.CancelWorkload)
    assert one.workload_id == end.workload_id


async def test_nothing_is_kept_of_jobs_and_pods_that_were_never_submitted(world):
    world.hear(listed(of_job(0)), gone(of_job(0)))
    world.hear(job(), NO_JOB)

    assert {} == world.handler._gone_since_ms


async def test_a_job_that_was_created_again_is_there(world):
    world.hear(job(), listed(of_job(0), of_job(1)))
    world.hear(NO_JOB, job(), job(over=True))
    world.hear(gone(of_job(0)), gone(of_job(1)))

    assert world.at_ms + GONE_MS == world.handler.next_due_ms()


async def test_pods_made_anew_after_an_end_are_other_work(world):
    (first,) = world.hear(job(), listed(of_job(0), of_job(1)))
    world.over(first.workload_id)

    (again,) = world.hear(
        gone(of_job(0)), gone(of_job(1)), changed(of_job(0, "n0")), changed(of_job(1, "n1"))
    )

    assert first.workload_id != again.workload_id
    world.over(first.workload_id)
    row = world.rows.groups["red/job/j1"]
    assert (1, "submitted") == (row["restart"], row["state"]), "the end of what is over is no news"


async def test_pods_made_anew_while_it_waits_belong_to_the_same_work(world):
    world.hear(job(), listed(of_job(0), of_job(1)))

    assert [] == world.hear(gone(of_job(0)), changed(of_job(0, "n0")))


async def test_the_same_pods_after_a_failure_wait_a_moment(world):
    (first,) = world.hear(listed(a_pod()))
    world.over(first.workload_id)

    assert [] == world.due()
    world.at_ms += RESTART_MS
    assert 1 == len(world.due())


async def test_what_a_person_cancelled_is_not_submitted_again(world):
    (first,) = world.hear(listed(a_pod()))
    world.over(first.workload_id, workloads.WorkloadCancelled)
    world.at_ms += ASK_AGAIN_MS

    assert [] == world.due()
    assert [("p", "Cancelled")] == await world.told()


async def test_a_rejection_is_told_to_the_pods_and_asked_again_later(world):
    (first,) = world.hear(listed(a_pod()))
    error = FieldError(field="queue", value="x", rule="is not a queue of team vision")
    world.fact(
        workloads.WorkloadRejected(
            workload_id=first.workload_id, team="vision", name="p", kind="training",
            body_hash="", errors=(error,), message="",
        )
    )  # fmt: skip

    assert [] == world.due()
    assert [("p", "Rejected")] == await world.told()
    world.at_ms += ASK_AGAIN_MS
    (again,) = world.due()
    assert first.workload_id != again.workload_id


async def test_sizes_of_a_group_that_differ_are_refused(world):
    labels = {"muster.dev/group": "g"}
    two = [
        a_pod(str(size), labels=labels, annotations={"muster.dev/group-size": str(size)})
        for size in (1, 2)
    ]

    assert [] == world.hear(listed(*two))
    assert {("1", "PodNotHonoured")} == {one for one in await world.told() if one[0] == "1"}


async def test_a_notice_is_written_once_and_again_after_a_failure(world, monkeypatch):
    monkeypatch.setattr("services.native.noticing.RETRY_SECONDS", 0)
    monkeypatch.setattr("services.native.noticing.PAUSE_SECONDS", 0)
    world.notices.failures = 1
    wrong = a_pod(not_honoured=("spec.affinity.x",))

    world.hear(listed(wrong))
    await world.told()
    await world.told()
    world.hear(changed(replace(wrong, labels={"a": "b"})))

    assert [("p", "PodNotHonoured")] == await world.told()
    (one,) = world.notices.written
    assert one.message.startswith("spec.affinity.x: decides a place and is not honoured")


async def test_pods_of_a_forgotten_group_are_submitted_anew(world):
    (first,) = world.hear(listed(a_pod()))
    world.over(first.workload_id)
    world.hear(gone(a_pod()))

    assert {} == world.rows.groups
    assert 1 == len(world.hear(changed(a_pod(uid="u-p"))))


async def test_an_unknown_group_is_forgotten_without_a_word(world):
    assert [] == world.fact(GroupForgotten(key="none"))


def replace_team(**fields):
    return organisation.TeamApplied(version=1, default_queue="q", **fields)


async def test_why_it_waits_is_told_to_its_pods_and_is_no_call_for_nodes_unless_one_helps(world):
    (one,) = world.hear(listed(a_pod()))
    kinds = {
        Reason.WAITING_FOR_QUOTA: (quotas.QuotaRefused, False),
        Reason.NO_CAPACITY: (workloads.PlacementRefused, True),
        Reason.NODES_UNHEALTHY: (workloads.PlacementRefused, False),
        Reason.TOPOLOGY: (workloads.PlacementRefused, True),
    }
    for reason, (kind, capacity) in kinds.items():
        world.notices.written.clear()
        world.fact(refused(one.workload_id, reason, kind))
        world.due()

        for _ in range(100):
            await asyncio.sleep(0.01)
            if world.notices.written:
                break
        (told,) = world.notices.written
        assert (reason.value, capacity) == (told.reason, told.capacity)
        assert "It waits. Next: wait" == told.message
    assert "TopologyPlacementFailed" == world.rows.groups["red/pod/u-p"]["reason"]


ON_HOLD = "held by ann"
AGAIN = {
    workloads.WorkloadHeld: (State.HELD, ON_HOLD, "held", f"{ON_HOLD} Next: release it"),
    workloads.WorkloadReleased: (
        State.QUEUED, "", "Pending", "it is queued and was not tried yet Next: wait for its turn",
    ),
    workloads.WorkloadRequeued: (
        State.QUEUED, "moved", "Requeued", "moved Next: wait for its turn",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", AGAIN)
async def test_what_is_held_released_or_queued_again_says_so(world, kind):
    (one,) = world.hear(listed(a_pod()))
    state, message, code, told = AGAIN[kind]

    world.over(one.workload_id, kind, state=state, message=message)
    world.due()

    assert [("p", code)] == await world.told()
    assert [told] == [one.message for one in world.notices.written]


async def test_a_pod_that_is_bound_is_told_nothing_more(world):
    (one,) = world.hear(listed(a_pod()))
    world.hear(changed(a_pod(claimed=True, node="n")))

    world.fact(refused(one.workload_id, Reason.NO_CAPACITY))
    world.due()

    assert [] == await world.told()


async def test_what_came_true_meanwhile_is_not_written(world, monkeypatch):
    monkeypatch.setattr("services.native.noticing.PAUSE_SECONDS", 0)
    monkeypatch.setattr("services.native.noticing.RETRY_SECONDS", 0)
    world.notices.failures = 1
    short = [a_pod(name, labels=GROUP, annotations=SIZE_OF_FIVE) for name in "abcd"]
    world.hear(listed(*short))
    world.hear(
        gone(short[0]),
        changed(replace(short[1], uid="another", gates=("g",))),
        changed(replace(short[2], claimed=True, node="n")),
    )

    assert [("d", "WaitingForPods")] == await world.told()


async def test_what_a_pod_was_told_is_forgotten_with_it(world):
    wrong = a_pod(not_honoured=("spec.affinity.x",))
    world.hear(listed(wrong))
    assert 1 == len(await world.told())

    world.hear(listed())
    world.notices.written.clear()
    await asyncio.sleep(0.15)
    world.hear(listed(wrong))

    assert [("p", "PodNotHonoured")] == await world.told()
