"""What a submission names and is not there, through the whole system: told by `why` in time."""

import asyncio
import time
from typing import Any

import pytest

from shared.core.model.nouns import GpuRequest, PodSet, WorkloadKind, WorkloadSpec
from shared.events.envelope import workload_id
from tests.kube.kill_place import placed
from tests.support.system import TEAM

NAMED_SECONDS = 2.0
NAMED_BY_WORK: dict[str, dict[str, Any]] = {
    "Secret": {"secrets": ("nothing",)},
    "PersistentVolumeClaim": {"volumes": ("nothing:/data",)},
    "PriorityClass": {"kubernetes_priority_class": "nothing"},
}
NAMED_BY_TEAM = {"ServiceAccount": "service_account", "Namespace": "namespace"}


def spec(**fields):
    pod_set = PodSet(
        count=2, gpu=GpuRequest(count=1), cpu_milli=1_000, memory_mib=1_024,
        image="registry.local/train:1", **fields,
    )  # fmt: skip
    return WorkloadSpec(name="lacks", kind=WorkloadKind.TRAINING, pod_sets=(pod_set,))


async def told(stage, key, words, **fields):
    """The state in which `why` tells these words of a new submission, in time."""
    started = time.monotonic()
    assert await stage.submit_http(spec(**fields), key) == 202
    why: dict[str, Any] = {}
    while words not in str(why):
        assert time.monotonic() - started < NAMED_SECONDS, why
        await asyncio.sleep(0.05)
        why = await stage.get(f"workloads/{workload_id(TEAM, key)}/why")
    print(f"{words}: {time.monotonic() - started:.2f} s, {why['state']}: {why['message']}")
    return why["state"]


@pytest.mark.timeout(300)
async def test_why_names_it_in_time_and_what_the_work_names_ends_it(kube):
    async with placed(kube.folder, 1) as place:
        stage = place.stage
        await ran_once(stage)
        for kind, fields in NAMED_BY_WORK.items():
            assert await told(stage, kind, f"{kind} nothing does not exist", **fields) == "failed"
        for kind, field in NAMED_BY_TEAM.items():
            await stage.put(f"teams/{TEAM}", {field: "nothing"})
            await knows(stage, field)
            state = await told(stage, kind, f"{kind} nothing does not exist")
            assert state == "queued"


async def ran_once(stage):
    """One submission goes through, so that everything is connected."""
    assert await stage.submit_http(spec(), "warm") == 202
    await stage.reaches(workload_id(TEAM, "warm"), "running", 60)


async def knows(stage, field):
    """Until admission knows the team's new document."""
    await stage.until(
        f"SELECT count(*) FROM admission.document WHERE body::json->>'{field}' = 'nothing'", 1, 40
    )
