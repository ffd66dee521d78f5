"""`why` on a real database: who may not be evicted, who is being stopped, who took the room."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from shared.core.model.decision import Reason
from shared.core.model.lifecycle import State
from shared.core.model.nouns import GpuRequest, Node, PodSet
from shared.core.preemption.eligibility.plan import Obstacle
from shared.events import nodes, plans, topics, workloads
from tests.support import facts as telling
from tests.support.facts import Fact, common
from tests.support.gateway import Gateway, publish_facts, running_projection, until
from tests.support.two_teams import (
    HOUR,
    START,
    queued,
    refused,
    running,
)

LATER = START + 24 * HOUR * 1000


async def test_who_waits_for_what_nobody_may_be_evicted_from_hears_so_and_so_do_his_equals(
    gateway: Gateway,
):
    blue = await gateway.key("blue", "viewer")
    small = PodSet(gpu=GpuRequest(count=1), cpu_milli=4000, memory_mib=1024)
    facts = [
        queued("w1"),
        queued("w2"),
        *running("w1", "red", START),
        *running("w2", "red", START),
    ]
    facts += [queued(name, "blue", after=at) for at, name in enumerate(("w3", "w4"))]
    facts += [queued("w5", "blue", products=("H100",))]
    facts += [telling.queued("w6", "blue", pods=small, at_ms=START)]

    async def answer(workload: str, obstacle: str | None):
        """Once it is so; the facts are of several topics."""
        body = (await gateway.call("GET", f"/v1/workloads/{workload}/why", key=blue)).body
        if not body.get("place") or (body["no_eviction"] or {}).get("obstacle") != obstacle:
            return None
        evicts = "are evicted for it" in body["owed"]
        return body if obstacle or evicts or workload == "w5" else None

    async def tell(source: str, *facts: Fact) -> None:
        await publish_facts(gateway.settings, facts, source=source, at_ms=int(time.time() * 1000))

    async with running_projection(gateway.settings):
        await tell("a", *facts, not_evicted("w3", retry_at_ms=LATER))
        first = await until(lambda: answer("w3", "VictimsNotEvictable"))
        equal = await until(lambda: answer("w4", "VictimsNotEvictable"))
        for other in ("w5", "w6"):
            assert await until(partial(answer, other, None))
        await tell("b", not_evicted("w3", obstacle=Obstacle.FITS))
        assert await until(lambda: answer("w3", None))
        late = not_evicted("w4", version=7, obstacle=Obstacle.POLICY)
        await tell("c", late, not_evicted("w3"))
        assert await until(lambda: answer("w4", "VictimsNotEvictable"))
        held = workloads.WorkloadHeld(**common("w3", 2, State.HELD, "blue"))
        await tell("d", (topics.WORKLOAD_FACTS, held))
        assert await until(lambda: answer("w4", None))

    assert (LATER, {"spared_gpu_milli": 8000}) == tuple(
        first["no_eviction"][one] for one in ("retry_at_ms", "evidence")
    )
    assert "8 GPUs are not preemptible, which may change at" in first["owed"]
    assert first["owed"].endswith("; wait until they end")
    assert "VictimsNotEvictable" != first["reason"], "it is no other reason to wait"
    assert "VictimsNotEvictable" in [one["reason"] for one in first["history"]]
    assert first["no_eviction"] == equal["no_eviction"]


def not_evicted(identifier: str, **changed: Any) -> Fact:
    """Nobody may go for a workload of blue."""
    fields: dict[str, Any] = {"workload_id": identifier, "team": "blue", "queue": "blue"}
    fields |= {"version": 1, "obstacle": Obstacle.NOT_EVICTABLE, "flavor": "h100"}
    fields |= {"message": "h100: 8 GPUs are not preemptible.", "next_step": "wait until they end"}
    fields |= {"evidence": {"spared_gpu_milli": 8000}} | changed
    return topics.PREEMPTION_FACTS, plans.PreemptionRefused(**fields)


async def test_what_is_being_stopped_frees_next_unless_it_is_kept_for_another(gateway: Gateway):
    operator = gateway.operator_key
    now_ms = int(time.time() * 1000)
    names = ("w1", "w2", "w3")
    facts = [queued(name) for name in names]
    facts += [one for name in names for one in running(name, "red", START)]
    facts += [queued("w4", "blue"), queued("w5", "blue")]
    taken = workloads.Preemption(
        plan_id="p", rule="reclaim", workload_id="w4", team="blue", queue="blue"
    )
    stopping = [
        workloads.WorkloadEvicted(**common("w1", 4, State.EVICTING), preemption=taken),
        workloads.WorkloadCancelling(**common("w2", 4, State.CANCELLING)),
    ]

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)
        both = [(topics.WORKLOAD_FACTS, one) for one in stopping]
        await publish_facts(gateway.settings, both, source="b", at_ms=now_ms)

        async def told(workload: str, *states: str):
            path = f"/v1/workloads/{workload}/why"
            frees = (await gateway.call("GET", path, key=operator)).body.get("frees_next") or []
            return frees if [one["state"] for one in frees] == list(states) else None

        mine = await until(lambda: told("w4", "evicting", "cancelling", "running"))
        await until(lambda: told("w5", "cancelling", "running"))

    assert now_ms + 30_000 < mine[0]["ends_at_ms"] < now_ms + 31_000
    assert 8000 == mine[0]["charge"]["gpu_milli"]


async def test_who_was_preempted_is_told_for_whom_and_the_past_is_told_as_it_was(
    gateway: Gateway,
):
    red = await gateway.key("red", "viewer")
    preemption = workloads.Preemption(
        plan_id="p", rule="reclaim", workload_id="w9", team="blue", queue="blue"
    )
    evicted = workloads.WorkloadEvicted(
        **common("w1", 4, State.EVICTING),
        reason=Reason.PREEMPTED,
        message="blue takes back what it lent",
        preemption=preemption,
        back_at_ms=77,
    )
    requeued = workloads.WorkloadRequeued(
        **common("w1", 5, State.QUEUED), reason=Reason.PREEMPTED, message="queues again"
    )
    facts = [queued("w1"), refused("w1"), *running("w1", "red", START + 100)]
    back = [(topics.WORKLOAD_FACTS, evicted), (topics.WORKLOAD_FACTS, requeued)]

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)
        await publish_facts(gateway.settings, back, source="b", at_ms=START + 5_000)

        path = "/v1/workloads/w1/why?at="

        async def again():
            reply = await gateway.call("GET", "/v1/workloads/w1/why", key=red)
            return reply if reply.body.get("preempted_by") else None

        async def refusal():  # it and that it was queued come on topics of their own
            reply = await gateway.call("GET", f"{path}{START + 2}", key=red)
            whole = ("queued", "WaitingForQuota") == (reply.body["state"], reply.body["reason"])
            return reply if whole else None

        now, then = (await until(again)).body, (await until(refusal)).body
        between = (await gateway.call("GET", f"{path}{START + 500}", key=red)).body
        before = await gateway.call("GET", f"{path}{START - 1}", key=red)

    assert ("queued", "preempted") == (now["state"], now["reason"])
    assert ("blue", "reclaim", 77) == tuple(
        now["preempted_by"][name] for name in ("team", "rule", "back_at_ms")
    )
    assert ("queued", "WaitingForQuota", None) == (then["state"], then["reason"], then["place"])
    assert ("running", "Running", None) == (
        between["state"],
        between["reason"],
        between["preempted_by"],
    )
    assert 400 == before.status


async def test_the_owner_of_what_others_borrow_hears_so_first_and_when_it_is_taken_back(
    gateway: Gateway,
):
    red = await gateway.key("red", "viewer")
    facts = [queued(name, "blue") for name in ("w1", "w2")]
    facts += [*running("w1", "blue", START), *running("w2", "blue", START), queued("w3")]
    no_room = telling.refused("w3", "one node must have 8 GPUs", "ask for fewer on one node", {})
    taken = workloads.Preemption(
        plan_id="p", rule="reclaim", workload_id="w3", team="red", queue="red"
    )
    evicted = workloads.WorkloadEvicted(
        **common("w2", 4, State.EVICTING, "blue"), preemption=taken
    )

    async def told(words: str):
        body = (await gateway.call("GET", "/v1/workloads/w3/why", key=red)).body
        return body if words in body.get("message", "") else None

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, [*facts, no_room], source="a", at_ms=START)
        waits = await until(lambda: told("queue blue borrows 8"))
        now_ms = int(time.time() * 1000)
        stops = [(topics.WORKLOAD_FACTS, evicted)]
        await publish_facts(gateway.settings, stops, source="b", at_ms=now_ms)
        taken_back = await until(lambda: told("8 GPUs are being taken back for it, by 20"))

    assert [("WaitingForReclaim", "InsufficientCapacity")] * 2 == [
        (one["reason"], one["recorded"]["reason"]) for one in (waits, taken_back)
    ]
    assert "queue red owns 8 h100 GPUs and uses 0, this needs 8" in waits["message"]
    assert waits["next_step"].startswith("wait: borrowers that have run as long")
    assert taken_back["next_step"].endswith("nothing has to be changed")
    assert now_ms + 30_000 <= taken_back["evidence"]["vacated_by_ms"] < now_ms + 31_000


async def test_work_that_runs_again_is_told_of_its_last_eviction_and_who_waits_why_nodes_are_out(
    gateway: Gateway,
):
    red = await gateway.key("red", "viewer")
    text = "node n1 is drained by key ops (operator): new fans"
    drained = workloads.WorkloadEvicted(
        **common("w1", 4, State.EVICTING), reason=Reason.DRAINED, message=text, note="new fans"
    )
    requeued = workloads.WorkloadRequeued(**common("w1", 5, State.QUEUED), reason=Reason.DRAINED)
    again = {**common("w1", 6, State.RUNNING), "attempt": 2}
    runs = workloads.WorkloadRunning(**again, running_at_ms=START + 9_000)
    node = Node(name="n1", flavor="h100", product="H100", cpu_milli=1000, memory_mib=1024, gpus=())
    out = workloads.PlacementRefused(
        workload_id="w2", team="red", queue="red", nomination=1, reason=Reason.NODES_UNHEALTHY,
        message="The only matching node is out.", next_step="It is tried again.",
    )  # fmt: skip
    facts = [queued("w1"), *running("w1", "red", START), queued("w2")]
    facts += [(topics.WORKLOAD_FACTS, one) for one in (drained, requeued, runs, out)]
    facts += [
        (topics.NODE_FACTS, nodes.NodeInventoryReported(node=node, generation=1)),
        (
            topics.WORKLOAD_FACTS,
            nodes.NodeCordoned(node="n1", reason=Reason.DRAINED, message=text),
        ),
    ]

    async def told(workload: str, *known: str):
        body = (await gateway.call("GET", f"/v1/workloads/{workload}/why", key=red)).body
        return body if all(one in str(body) for one in known) else None

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)
        moved = await until(lambda: told("w1", "'state': 'running'", "'note': 'new fans'"))
        waits = await until(lambda: told("w2", "Closed: "))

    assert ("drained", text, "new fans") == tuple(
        moved["last_eviction"][one] for one in ("reason", "message", "note")
    )
    assert moved["preempted_by"] is None
    assert f"The only matching node is out. Closed: {text}." == waits["message"]


async def test_an_eviction_is_told_however_many_reasons_came_after_it(gateway: Gateway):
    red = await gateway.key("red", "viewer")
    preemption = workloads.Preemption(
        plan_id="p", rule="reclaim", workload_id="w9", team="blue", queue="blue"
    )
    taken = workloads.WorkloadEvicted(
        **common("w1", 4, State.EVICTING), reason=Reason.PREEMPTED, preemption=preemption
    )
    drained = workloads.WorkloadEvicted(
        **common("w1", 7, State.EVICTING) | {"attempt": 2}, reason=Reason.DRAINED, note="new fans"
    )
    again = common("w1", 6, State.RUNNING) | {"attempt": 2}
    last = common("w1", 9, State.RUNNING) | {"attempt": 3}
    facts = [queued("w1"), *running("w1", "red", START)]
    facts += [
        (topics.WORKLOAD_FACTS, one)
        for one in (
            taken,
            workloads.WorkloadRequeued(**common("w1", 5, State.QUEUED), reason=Reason.PREEMPTED),
            workloads.WorkloadRunning(**again, running_at_ms=START),
            drained,
            workloads.WorkloadRequeued(**common("w1", 8, State.QUEUED), reason=Reason.DRAINED),
        )
    ]
    facts += [telling.refused("w1", f"{one} GPUs are free", "wait", {}) for one in range(60)]
    facts += [(topics.WORKLOAD_FACTS, workloads.WorkloadRunning(**last, running_at_ms=START))]

    async def runs_again():
        body = (await gateway.call("GET", "/v1/workloads/w1/why", key=red)).body
        whole = body.get("history") and body["history"][0]["message"] == "59 GPUs are free"
        return body if whole and body["state"] == "running" else None

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)
        body = await until(runs_again)

    assert {"InsufficientCapacity"} == {one["reason"] for one in body["history"]}
    assert body["last_eviction"], "it is older than the reasons that are told"
    assert ("drained", "new fans") == (
        body["last_eviction"]["reason"],
        body["last_eviction"]["note"],
    )
    assert "blue" == body["preempted_by"]["team"], "that is older still"
