"""`why` on a real database of what runs: its size, and what hides nothing of it."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from shared.core.model.decision import FieldError, Reason
from shared.core.model.lifecycle import State
from shared.core.model.nouns import GpuRequest, GpuShare, Placement, PodPlacement, PodSet
from shared.core.model.units import Resources
from shared.core.model.wording import moment
from shared.events import idleness, topics, workloads
from tests.fixtures.servers import Database
from tests.support import facts as telling
from tests.support.facts import Fact, common
from tests.support.gateway import SPEC, Gateway, publish_facts, running_projection, until
from tests.support.two_teams import (
    START,
    queued,
    running,
)


async def test_of_an_elastic_gang_it_is_told_how_much_of_it_runs(gateway: Gateway):
    asked = PodSet(count=4, min_count=1, gpu=GpuRequest(count=8), cpu_milli=4000)
    few, all_of_it = (_on_nodes(count) for count in (2, 4))
    resized = workloads.WorkloadResized(
        **common("w1", 4, State.RUNNING), placement=all_of_it, resized_at_ms=START, resizes=1
    )

    async def told(placed_pods: int) -> tuple[int, int, str] | None:
        one = (await gateway.call("GET", "/v1/workloads/w1")).body
        if one.get("state") != "running" or one["placed_pods"] != placed_pods:
            return None
        if one["pods"] is None:
            return None  # what was asked for comes on another topic, in its own time
        message = (await gateway.call("GET", "/v1/workloads/w1/why")).body["message"]
        return one["pods"], one["placed_gpu_milli"], message

    async with running_projection(gateway.settings):
        started = telling.started("w1", placement=few, at_ms=START, submitted_at_ms=START)
        first = [telling.queued("w1", pods=asked, at_ms=START), *started]
        await publish_facts(gateway.settings, first, source="t1", at_ms=START)
        smaller = await until(lambda: told(2))
        whole = [(topics.WORKLOAD_FACTS, resized)]
        await publish_facts(gateway.settings, whole, source="t2", at_ms=START)
        larger = await until(lambda: told(4))

    assert (4, 16_000, "2 of its 4 pods run, as it is elastic") == smaller
    assert (4, 32_000, "its pods run") == larger


@pytest.mark.parametrize(
    "of_before", [False, True], ids=["told today", "a row of before the column"]
)
async def test_of_what_failed_the_words_of_the_cluster_are_told_beside_the_code(
    gateway: Gateway, database: Database, of_before: bool
):
    failed = workloads.WorkloadFailed(
        **common("w1", 4, State.FAILED),
        reason=Reason.FAILED,
        message="pod w1-1-0: OOMKilled: exit code 137",
        pod_reason="OOMKilled",
    )
    facts = [queued("w1"), *running("w1", "red", START), (topics.WORKLOAD_FACTS, failed)]

    async def told():
        body = (await gateway.call("GET", "/v1/workloads/w1/why")).body
        return body if "failed" == body.get("state") and body.get("pod_reason") else None

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)
        await until(told)
    if of_before:
        for table in ("workload", "event"):
            change = f"UPDATE gateway.{table} SET reason = pod_reason, pod_reason = DEFAULT"
            database.execute(f"{change} WHERE pod_reason <> ''")

    why = await told()
    one = (await gateway.call("GET", "/v1/workloads/w1")).body
    events = (await gateway.call("GET", "/v1/workloads/w1/events")).body["items"]
    (event,) = [one for one in events if one["state"] == "failed"]
    for told_there in (why, why["history"][0], one, event):
        assert ("failed", "OOMKilled") == (told_there["reason"], told_there["pod_reason"])
    assert "pod w1-1-0: OOMKilled: exit code 137" == why["message"]
    assert "look at its pods and submit it again" == why["next_step"]


async def test_that_its_key_came_again_with_another_body_hides_nothing(gateway: Gateway):
    made = await gateway.call("POST", "/v1/workloads?team=red", SPEC)
    received = made.body["id"]
    idle = idleness.IdlenessNoticed(
        workload_id="w1", team="red", queue="red", attempt=1, since_ms=START, until_ms=START,
        utilization_percent=1, percent_below=5,
    )  # fmt: skip

    def conflict(identifier: str) -> Fact:
        told = workloads.SubmissionConflicted(workload_id=identifier, team="red", message="used")
        return topics.QUEUE_FACTS, told

    async def told(workload: str, count: int, state: str):
        body = (await gateway.call("GET", f"/v1/workloads/{workload}/why")).body
        known = (state, count) == (body.get("state"), len(body.get("history", ())))
        return body if known else None

    async with running_projection(gateway.settings):
        facts = [queued("w1"), *running("w1", "red", START), (topics.IDLENESS_FACTS, idle)]
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)
        warned = await until(partial(told, "w1", 1, "running"))
        again = [conflict("w1"), conflict(received)]
        await publish_facts(gateway.settings, again, source="b", at_ms=START + 1000)
        still = await until(partial(told, "w1", 2, "running"))
        waits = await until(partial(told, received, 1, "received"))

    assert ("idle", "idle") == (warned["reason"], still["reason"])
    assert ("Received", "Conflicted") == (waits["reason"], waits["history"][0]["reason"])


async def test_of_a_rejected_one_the_remedy_is_told_and_of_the_future_nothing(gateway: Gateway):
    broken = FieldError(field="pod_sets[0].count", value="500", rule="larger than the cluster")
    errors = (msgspec.structs.replace(broken, remedy="ask for at most 400 pods"),)
    rejected = workloads.WorkloadRejected(
        workload_id="w1", team="red", name="n", kind="training", body_hash="h", errors=errors,
        message="pod_sets[0].count: larger than the cluster",
    )  # fmt: skip

    async def answer():
        body = (await gateway.call("GET", "/v1/workloads/w1/why")).body
        return body if body.get("state") == "rejected" else None

    async with running_projection(gateway.settings):
        facts: list[Fact] = [(topics.QUEUE_FACTS, rejected)]
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)
        told = await until(answer)
        path = f"/v1/workloads/w1/why?at={START + 1000 * 86_400_000}"
        ahead = await gateway.call("GET", path)
        early = await gateway.call("GET", f"/v1/workloads/w1/why?at={START - 1}")

    assert "ask for at most 400 pods, then submit it again" == told["next_step"]
    assert (400, 400) == (ahead.status, early.status)
    assert "must not be later than now, 20" in ahead.body["errors"][0]["rule"]
    assert f"before the submission, {moment(START)}" in early.body["errors"][0]["rule"]


def _on_nodes(count: int) -> Placement:
    """Pods of eight GPUs, each on a node of its own."""
    shares = tuple(GpuShare(index=at, mask=255, milli=1000, memory_mib=0) for at in range(8))
    return Placement(
        flavor="h100",
        pods=tuple(
            PodPlacement(pod_set="main", rank=rank, node=f"n{rank}", shares=shares)
            for rank in range(count)
        ),
        charge=Resources(gpu_milli=8000 * count, cpu_milli=4000 * count),
    )
