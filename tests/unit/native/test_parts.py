"""Groups that start part by part: JobSets in order, LeaderWorkerSets that wait for leaders."""

import pytest

from shared.core.native import GroupObject
from shared.ports.native import GroupChanged
from tests.support.native_world import a_pod, changed, listed

JOBSET, LWS = "jobset.sigs.k8s.io", "leaderworkerset.sigs.k8s.io"


def of_jobset(job, index):
    part = "lead" if job == 0 else "work"
    labels = {"jobset-uid": "s", "replicatedjob-name": part, "job-global-index": str(job)}
    index_label = {"batch.kubernetes.io/job-completion-index": str(index)}
    return a_pod(
        f"{part}-{index}", labels={f"{JOBSET}/{key}": v for key, v in labels.items()} | index_label
    )


def of_lws(_, index):
    labels = {"name": "set", "group-key": "l", "worker-index": str(index)}
    return a_pod(
        f"set-{index}",
        labels={f"{LWS}/{key}": value for key, value in labels.items()},
        annotations={f"{LWS}/size": "3"},
    )


IN_ORDER = GroupObject(size=3, in_parts=True, parts={"lead": 1, "work": 2})
KINDS = {
    "jobset": ("red/jobset/s", IN_ORDER, [of_jobset(0, 0), of_jobset(1, 0), of_jobset(1, 1)]),
    "lws": ("red/lws/set", GroupObject(in_parts=True), [of_lws(0, index) for index in range(3)]),
}


@pytest.mark.parametrize(("key", "told", "pods"), KINDS.values(), ids=KINDS.keys())
async def test_what_starts_in_order_never_waits_for_what_is_made_later(world, key, told, pods):
    first, second, third = pods
    (leads,) = world.hear(GroupChanged(key=key, told=told), listed(first))
    begun_ms = world.at_ms
    world.at_ms += 5_000
    runs = changed(a_pod(first.name, labels=first.labels, claimed=True, node="n"))

    assert [] == world.hear(runs, changed(second)), "the second part is a gang"
    (works,) = world.hear(changed(third))

    assert [1, 2] == [one.spec.pod_sets[0].count for one in (leads, works)]
    assert leads.workload_id != works.workload_id
    assert begun_ms == works.submitted_at_ms, "it has the place of the first"
    assert [] == world.due()


@pytest.mark.parametrize(("key", "told", "pods"), KINDS.values(), ids=KINDS.keys())
async def test_what_starts_together_is_one_gang_though_told_after_its_pods(world, key, told, pods):
    del told
    assert [] == world.hear(listed(*pods))

    (one,) = world.hear(GroupChanged(key=key, told=GroupObject(size=3)))

    assert 3 == one.spec.pod_sets[0].count
    assert ":" not in one.pod_group
    assert [] == world.hear(changed(pods[0]))
