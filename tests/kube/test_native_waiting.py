"""Pods and Jobs of the cluster that wait, or can never run, and what they are told."""

import asyncio
import time
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shared.core.admission.standing import with_next
from shared.core.model.reason import BY_CAPACITY, Reason
from tests.kube.malformed_pods import (
    LARGE,
    POOL,
    asks,
    malformed_pods,
)
from tests.kube.native_place import SECONDS, bound, condition_of, names_of, running
from tests.kube.waiting_scenes import OTHER, SCENES
from tests.support.system import TEAM

pytestmark = pytest.mark.timeout(400)
WAITED_SECONDS_MAX = 5
OF_POD = (
    "SELECT workload_id FROM native.pod_group JOIN gateway.workload w ON w.id = workload_id"
    " WHERE $1 = ANY(uids)"
)


async def test_a_gang_is_tried_only_when_it_is_whole(stage, place):
    grouped = {
        "labels": {"muster.dev/group": "four"},
        "annotations": {"muster.dev/group-size": "4"},
    }
    for name in "abc":
        place.pod(name, **grouped)

    told = "3 of 4 pods of the group four are there; it holds nothing until all are"
    place.until("it is told", lambda: ("WaitingForPods", told) in place.events("a"))
    assert [] == bound(place.pods())
    place.pod("d", **grouped)
    found = place.until("all run", lambda: (r := running(place.pods())) and len(r) == 4 and r)

    ranks = {
        one["metadata"]["name"]: one["metadata"]["labels"]["muster.dev/rank"] for one in found
    }
    assert {"a": "0", "b": "1", "c": "2", "d": "3"} == ranks


def _create(place, one):
    """By its kind of owner, as a user would; the owner makes one pod."""
    if one.kind == "pod":
        place.pod(one.name, one.spec, **one.metadata)
        return
    template = {"metadata": one.metadata, "spec": place.spec(one.spec)}
    if one.kind in ("job", "indexed"):
        template["spec"]["restartPolicy"] = "Never"
        mode = "Indexed" if one.kind == "indexed" else "NonIndexed"
        place.jobs(one.name, {"completionMode": mode, "template": template})
        return
    name = {"malformed": one.name}
    template["metadata"] = {**one.metadata, "labels": {**one.metadata.get("labels", {}), **name}}
    spec = {"selector": {"matchLabels": name}, "template": template}
    body = {"metadata": {"name": one.name}, "spec": spec}
    place.call("POST", f"/apis/apps/v1/namespaces/{{}}/{one.kind}s", body)


async def test_205_malformed_pods_are_told_once_and_keep_no_other_waiting(stage, place):
    place.pod("before")
    place.until("it runs", lambda: running(place.pods()))
    wrong = list(malformed_pods())
    for number, one in enumerate(wrong):
        _create(place, one)
        if number in (50, 150):
            place.pod(f"sound-{number}", annotations={"large": "x" * LARGE})
    begun = time.monotonic()
    place.pod("last", asks(**{"nvidia.com/gpu": "1"}))
    place.until("the last one runs", lambda: "last" in names_of(running(place.pods())))
    waited = time.monotonic() - begun

    place.until("all are told", lambda: len(place.all_events()) >= len(wrong))
    told = place.all_events()
    notes = {one.name: [told[pod] for pod in told if one.is_of(pod)] for one in wrong}
    as_wanted = {one.name: [[one.words]] for one in wrong}
    assert as_wanted == {
        one.name: [
            [one.words if one.words in note else note for note in pod] for pod in notes[one.name]
        ]
        for one in wrong
    }
    found = place.pods()
    reasons = {
        c["reason"]
        for pod in found
        for c in pod["status"]["conditions"]
        if c["status"] == "False" and c["type"] == "PodScheduled"
    }
    assert {"before", "sound-50", "sound-150", "last"} == names_of(bound(found))
    assert reasons == {"PodNotHonoured", "Rejected"}
    assert waited < WAITED_SECONDS_MAX


@asynccontextmanager
async def staged(stage, place, name):
    """A pod that waits, with what is so before; node and team are as before at the end."""
    scene = SCENES[name]
    node, own = f"/api/v1/nodes/{scene.node}", {}
    if scene.queue is not None:
        await stage.put(f"queues/{name}", {"team": TEAM, **scene.queue})
        own = {"labels": {"muster.dev/queue": name}}
    if scene.node:
        change = {"metadata": {"labels": {POOL: scene.node}}}
        place.call("PATCH", node, {**change, "spec": {"unschedulable": scene.cordoned}})
    try:
        for number, spec in enumerate(scene.before):
            place.pod(f"before-{number}", spec, **own)
        place.until("they run", lambda: len(running(place.pods())) == len(scene.before))
        await stage.put(f"teams/{TEAM}", scene.team)
        for number, spec in enumerate(scene.ahead):
            place.pod(f"ahead-{number}", spec, **own, **scene.metadata)
        place.pod("waits", scene.spec, **own, **scene.metadata)
        yield
    finally:
        if scene.node:
            labels = {"metadata": {"labels": {POOL: None}}}
            place.call("PATCH", node, {**labels, "spec": {"unschedulable": False}})
        await stage.put(f"teams/{TEAM}", dict.fromkeys(scene.team))


async def _until_told(stage, place, code):
    """The workload of the pod that waits, its condition, and the sentence of why: they agree."""
    deadline = time.monotonic() + SECONDS
    why: dict[str, Any] = {}
    told: dict[str, Any] = {}
    sentence = ""
    while why.get("reason") != code or told.get("message") != sentence:
        assert time.monotonic() < deadline, (code, why, place.all_events())
        await asyncio.sleep(0.2)
        (pod,) = (one for one in place.pods() if one["metadata"]["name"] == "waits")
        told = condition_of(pod, "PodScheduled") or {}
        for row in await stage.rows.fetch(OF_POD, pod["metadata"]["uid"]):
            why = await stage.get(f"workloads/{row['workload_id']}/why")
            sentence = with_next(why["message"], why["next_step"])
    return why["id"], told, sentence


@pytest.mark.parametrize("name", SCENES)
async def test_a_pod_says_what_why_says_and_calls_for_a_node_only_where_one_helps(
    stage, place, name
):
    scene = SCENES[name]
    async with staged(stage, place, name):
        if scene.command or scene.then:
            work, _, _ = await _until_told(stage, place, Reason.WAITING_FOR_QUOTA)
            if scene.command:
                await stage.command(work, scene.command)
            if scene.then:
                await stage.put(f"flavors/{OTHER}", {"products": ["none"]})
                await stage.put(f"queues/{name}", scene.then)
        _, told, sentence = await _until_told(stage, place, scene.code)

    helps = {one.value for one in BY_CAPACITY}
    events = place.events("waits")
    assert (scene.code, sentence) in events
    assert told["reason"] == ("Unschedulable" if scene.code in helps else scene.code)
    assert scene.code in helps or not helps & {reason for reason, _ in events}


async def test_a_job_that_a_quota_of_its_namespace_keeps_short_names_it(stage, place):
    path, resource = "/api/v1/namespaces/{}/resourcequotas", "requests.nvidia.com/gpu"
    body = {"metadata": {"name": "gpus"}, "spec": {"hard": {resource: "3"}}}
    place.call("POST", path, body)
    place.until(
        "the quota counts",
        lambda: place.call("GET", f"{path}/gpus")["status"].get("hard"),
    )
    spec = {"completionMode": "Indexed", "parallelism": 4, "completions": 4}
    place.job("short", spec)

    short = "3 of 4 pods of the group short are there"

    def told():
        notes = [one for notes in place.all_events().values() for one in notes]
        return [one for one in notes if "hard 3" in one and short in one]

    (first, *_) = place.until("the quota is named", told)
    waiting = bound(place.pods())
    place.call("PATCH", f"{path}/gpus", {"spec": {"hard": {resource: "4"}}})
    place.until("all run", lambda: len(running(place.pods())) == 4)

    assert [] == waiting, "a gang is whole or not at all"
    assert f"ResourceQuota gpus of namespace {place.namespace} admits no further pod" in first
    assert f"{resource} has hard 3, used 3. Next: raise it" in first
