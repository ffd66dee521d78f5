"""From facts to rows: one row for each workload of a batch, the newest state wins."""

import json
from itertools import permutations
from typing import Any

import pytest

from services.gateway.projection.projection import APPLY, Projection
from services.gateway.projection.projection_sql import (
    CORDONS,
    DEBTS,
    EVENTS,
    HEALTH,
    LEARNED,
    NODES,
    REFUSALS,
    REFUSALS_OVER,
    SHUNS,
    SPECS,
    TRENDS,
    WORKLOADS,
)
from shared.core.model.lifecycle import State
from shared.core.model.nouns import (
    GpuShare,
    Node,
    Placement,
    PodPlacement,
    Workload,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.model.reason import Reason
from shared.core.model.units import Resources
from shared.core.model.value import replace
from shared.core.preemption.eligibility.plan import Obstacle
from shared.events import nodes, plans, quotas, topics, workloads
from shared.events.envelope import Event, Received, event_id
from shared.events.registry import BY_TOPIC, NAME_BY_TYPE
from shared.events.workloads import Wire

PASSED_OVER = {
    "NodesNeeded",
    "WorkloadNominated",
    "NominationWithdrawn",
    "NodesKept",
    "NodeNoticeReported",
    "HealthEventReported",
    "IdleReleaseRefused",
    "QueueClosed",
    "NodeSilent",
    "NodeHeard",
}


def told(payload: Wire, number: int, topic: str = "workload.facts.v1") -> Received:
    event = Event(
        id=event_id(1_000 + number, str(number), "x", 0),
        type=NAME_BY_TYPE[type(payload)],
        source="x",
        subject="s",
        time_ms=1_000 + number,
        key="k",
        payload=payload,
    )
    return Received(event=event, topic=topic, partition=0, offset=number)


def queued(identifier: str = "w1") -> workloads.WorkloadQueued:
    spec = WorkloadSpec(
        name="n", kind=WorkloadKind.TRAINING, labels={"a": "b"}, priority_class="batch"
    )
    workload = Workload(
        id=identifier, team="red", queue="q", cell=0, priority=5, spec=spec, submitted_at_ms=900
    )
    return workloads.WorkloadQueued(workload=workload, body_hash="h")


def fact(kind: type, version: int, state: State, **fields: object) -> workloads.WorkloadFact:
    base: dict = {"workload_id": "w1", "team": "red", "queue": "q", "attempt": 1, "priority": 5}
    made: workloads.WorkloadFact = kind(**(base | fields), version=version, state=state)
    return made


def placed(version: int = 2, node: str = "n-1") -> workloads.WorkloadFact:
    share = GpuShare(index=0, mask=255, milli=1000, memory_mib=0)
    pods = tuple(
        PodPlacement(pod_set="main", rank=rank, node=node, shares=(share,)) for rank in range(2)
    )
    placement = Placement(flavor="f", pods=pods, charge=Resources(gpu_milli=2000))
    return fact(
        workloads.WorkloadPlaced,
        version,
        State.PLACED,
        placement=placement,
        placed_at_ms=50,
        submitted_at_ms=900,
    )


def rows_of(*facts: Wire) -> dict[str, list[dict]]:
    """The rows that one batch writes, by table, as dictionaries."""
    messages = [told(one, number) for number, one in enumerate(facts)]
    tables = {WORKLOADS: "workload", SPECS: "spec", EVENTS: "event", NODES: "node"}
    tables |= {HEALTH: "health", CORDONS: "cordon", DEBTS: "debt", SHUNS: "shun", TRENDS: "trend"}
    found: dict[str, list[dict]] = {}
    for write in Projection().decide(messages, 0).writes:
        names = write.sql.split("(", 1)[1].split(")", 1)[0].split(", ")
        name = tables.get(write.sql, "limit")
        rows = zip(*write.arguments, strict=True)
        found[name] = [dict(zip(names, row, strict=True)) for row in rows]
    return found


def test_a_batch_makes_one_row_of_a_workload_and_an_event_of_each_fact():
    running = fact(workloads.WorkloadRunning, 3, State.RUNNING, running_at_ms=60)

    rows = rows_of(queued(), placed(), running)

    (row,) = rows["workload"]
    assert (row["state"], row["version"], row["name"], row["labels"]) == (
        "running",
        3,
        "n",
        '{"a":"b"}',
    )
    assert (row["nodes"], row["nodes_gpu_milli"], row["flavor"]) == ('{"n-1"}', "{2000}", "f")
    assert [event["state"] for event in rows["event"]] == ["queued", "placed", "running"]
    assert [event["seq"] for event in rows["event"]] == [1, 2, 3]


@pytest.mark.parametrize(
    ("kind", "more", "said"),
    [
        (workloads.CancelWorkload, {}, "cancel"),
        (workloads.HoldWorkload, {}, "hold"),
        (workloads.ReleaseWorkload, {}, "release"),
        (workloads.ResizeWorkload, {"pods": 3}, "3 pods"),
        (workloads.ReprioritiseWorkload, {"priority_class": "batch"}, "priority class batch"),
        (workloads.RequestEviction, {"note": "upgrade"}, "eviction"),
    ],
)
def test_what_somebody_asked_for_is_told(kind, more, said):
    who = {"actor": "abcd2345", "by": "key nightly-ci (team admin)"}
    asked = [kind(workload_id="w1", team="red", **one, **more) for one in (who, {})]

    first, second = rows_of(queued(), *asked)["event"][1:]

    why = ": upgrade" if "note" in more else ""
    assert first["message"] == f"{said}: asked for by key nightly-ci (team admin){why}"
    assert second["message"] == f"{said}: asked for{why}"
    assert "abcd2345" in first["detail"]


def test_the_order_between_topics_does_not_matter():
    running = fact(workloads.WorkloadRunning, 3, State.RUNNING, running_at_ms=60)
    facts = [queued(), placed(), running]
    wanted = ("state", "version", "name", "pods", "queue", "live")

    results = {
        tuple(rows_of(*order)["workload"][0][name] for name in wanted)
        for order in permutations(facts)
    }

    assert results == {("running", 3, "n", 1, "q", True)}


def test_the_class_is_that_of_the_newest_fact_that_names_one_in_whatever_order_they_are_read():
    raised = fact(
        workloads.WorkloadReprioritised, 2, State.QUEUED, priority_class="high", priority=9
    )
    for facts in ((queued(),), (queued(), placed()), (placed(), queued())):
        assert "batch" == rows_of(*facts)["workload"][0]["priority_class"]

    results = {
        (row["priority_class"], row["priority"])
        for order in permutations((queued(), raised))
        for row in rows_of(*order)["workload"]
    }

    assert {("high", 9)} == results
    assert rows_of(placed())["workload"][0]["priority_class"] is None


def test_a_workload_that_waits_again_has_no_place_any_more():
    requeued = fact(workloads.WorkloadRequeued, 4, State.QUEUED, reason=Reason.PREEMPTED)

    (row,) = rows_of(placed(), requeued)["workload"]

    assert (row["state"], row["nodes"], row["placement"], row["charge_gpu_milli"]) == (
        "queued",
        "{}",
        "",
        0,
    )
    assert 0 == row["placed_pods"]
    assert row["reason"] == "preempted"


def test_a_gang_that_grew_is_where_the_newest_size_says():
    before = placed()
    assert isinstance(before, workloads.WorkloadPlaced)
    pod = before.placement.pods[0]
    more = replace(
        before.placement, pods=(pod, *(replace(pod, rank=r, node="another") for r in (1, 2)))
    )
    resized = fact(
        workloads.WorkloadResized,
        4,
        State.RUNNING,
        placement=more,
        resized_at_ms=70,
        resizes=1,
    )

    (row,) = rows_of(before, resized)["workload"]

    assert row["nodes"].endswith(',"another"}')
    assert 3 == row["placed_pods"]
    assert (row["state"], row["version"]) == ("running", 4)


def learned(before: Wire, **changed: Any) -> nodes.NodeDevicesLearned:
    """It has the sixth GPU of each node in place of the first."""
    assert isinstance(before, workloads.WorkloadPlaced)
    share = replace(before.placement.pods[0].shares[0], index=5)
    pods = tuple(replace(pod, shares=(share,)) for pod in before.placement.pods)
    held = nodes.HeldDevices(
        workload_id=before.workload_id,
        attempt=before.attempt,
        placement=replace(before.placement, pods=pods),
    )
    return nodes.NodeDevicesLearned(node="n-1", workloads=(replace(held, **changed),))


def test_gpus_that_a_kubelet_chose_are_written_beside_what_else_is_told():
    before = placed()
    running = fact(workloads.WorkloadRunning, 3, State.RUNNING, running_at_ms=60)
    back = fact(workloads.WorkloadRequeued, 5, State.QUEUED)

    (alone,) = Projection().decide([told(learned(before), 0)], 0).writes
    (together,) = rows_of(before, learned(before))["workload"]
    (after,) = rows_of(learned(before), running)["workload"]
    (of_another,) = rows_of(before, learned(before, attempt=7))["workload"]
    (over,) = rows_of(learned(before), back)["workload"]

    assert alone.sql == LEARNED
    assert [["w1"], [1]] == list(alone.arguments[:2])
    for row in (together, after):
        assert '"index":5' in row["placement"]
    assert '"index":5' not in of_another["placement"]
    assert "" == over["placement"]


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (workloads.WorkloadSucceeded, State.SUCCEEDED),
        (workloads.WorkloadFailed, State.FAILED),
        (workloads.WorkloadCancelled, State.CANCELLED),
    ],
)
def test_an_ended_workload_is_not_live(kind, state):
    (row,) = rows_of(fact(kind, 4, state))["workload"]

    assert (row["live"], row["state"], row["ended_at_ms"]) == (False, state.value, 1_000)


def test_the_exit_code_is_that_of_the_attempt_that_ended_last():
    evicted = fact(workloads.WorkloadEvicted, 4, State.EVICTING, exit_code=7)
    queued = fact(workloads.WorkloadRequeued, 5, State.QUEUED)
    succeeded = fact(workloads.WorkloadSucceeded, 9, State.SUCCEEDED)
    failed = fact(workloads.WorkloadFailed, 9, State.FAILED, exit_code=137)

    codes = [
        rows_of(evicted, *later)["workload"][0]["exit_code"]
        for later in ((), (queued,), (queued, succeeded), (queued, failed))
    ]

    assert [7, 7, 0, 137] == codes


def test_an_older_inventory_of_a_node_changes_nothing():
    def report(generation: int, pool: str) -> Wire:
        node = Node(
            name="n", flavor="f", product="p", cpu_milli=1, memory_mib=1, gpus=(), pool=pool
        )
        return nodes.NodeInventoryReported(node=node, generation=generation)

    (row,) = rows_of(report(2, "new"), report(1, "old"))["node"]

    assert (row["generation"], row["pool"]) == (2, "new")


def test_of_debts_the_newest_stands_by_node_in_whatever_order_and_however_often():
    first = quotas.DebtsTold(debts={"red": 9, "all": 3}, at_ms=60)
    second = quotas.DebtsTold(debts={"red": -7}, at_ms=120)
    expected = [("all", 3, 60), ("red", -7, 120)]

    for order in permutations((first, second, first)):
        rows = [tuple(row.values()) for row in rows_of(*order)["debt"]]

        assert expected == sorted(rows)


def test_a_node_that_takes_work_again_has_a_cordon_without_a_reason():
    cordoned = nodes.NodeCordoned(
        node="n", reason=Reason.DRAINED, message="for repair", gone_at_ms=9
    )

    (first,) = rows_of(cordoned)["cordon"]
    (last,) = rows_of(cordoned, nodes.NodeUncordoned(node="n"))["cordon"]

    assert (first["reason"], first["message"], first["gone_at_ms"]) == ("drained", "for repair", 9)
    assert (last["reason"], last["message"], last["gone_at_ms"]) == ("", "", 0)
    assert last["at_ms"] > first["at_ms"]


def test_a_node_that_is_tried_again_is_shunned_until_no_time():
    text = "2 workloads did not start"
    shunned = nodes.NodeShunned(node="n", until_ms=9, workloads=2, start_seconds=120, message=text)

    (first,) = rows_of(shunned)["shun"]
    (last,) = rows_of(shunned, nodes.NodeUnshunned(node="n", reason=Reason.STARTED))["shun"]

    assert (first["until_ms"], first["message"]) == (9, text)
    assert (last["until_ms"], last["message"]) == (0, "")
    assert last["at_ms"] > first["at_ms"]


def test_names_are_quoted_in_arrays():
    (row,) = rows_of(placed(node='a"b\\c,{d}'))["workload"]

    assert row["nodes"] == '{"a\\"b\\\\c,{d}"}'


def test_every_fact_that_is_read_is_applied_or_passed_over_on_purpose():
    read = [topic for topic, _ in Projection().topics()]
    types = {kind for topic in read for kind in BY_TOPIC[topic]}

    assert {kind.__name__ for kind in types - set(APPLY)} == PASSED_OVER
    assert topics.WORKLOAD_FACTS in read


def test_the_same_facts_give_the_same_writes():
    facts = [told(queued(), 1), told(placed(), 2)]

    assert Projection().decide(facts, 1).writes == Projection().decide(facts, 2).writes


def test_a_preemption_is_told_whole_in_the_story_of_its_preemptor():
    victim = plans.PlannedVictim(workload_id="v", version=4, attempt=1, rule="reclaim")
    accepted = plans.EvictionPlanAccepted(
        plan_id="p",
        workload_id="w1",
        team="red",
        queue="q",
        flavor="h100",
        rule="reclaim",
        victims=(victim,),
        expires_at_ms=9_000,
    )

    (row,) = rows_of(accepted)["event"]

    assert ("w1", "red", "reclaim") == (row["workload_id"], row["team"], row["reason"])
    assert ["v"] == [one["workload_id"] for one in json.loads(row["detail"])["victims"]]
    assert row["message"].endswith("evicted for it: 1 workload")
    assert "kept until 1970-01-01 00:00:09Z" in json.loads(row["detail"])["next_step"]


@pytest.mark.parametrize(
    ("victims", "told"),
    [
        ("m", "moved for it: 1 workload"),
        ("vm", "evicted for it: 1 workload, moved for it: 1 workload"),
        ("", "nothing is evicted"),
    ],
)
def test_who_goes_on_elsewhere_is_told_apart(victims: str, told: str):
    to = Placement(flavor="h100", pods=(), charge=Resources())
    accepted = plans.EvictionPlanAccepted(
        plan_id="p",
        workload_id="w1",
        team="red",
        queue="q",
        flavor="h100",
        rule="move",
        victims=tuple(
            plans.PlannedVictim(
                workload_id=one, version=4, attempt=1, moves_to=to if one == "m" else None
            )
            for one in victims
        ),
        expires_at_ms=9_000,
    )

    assert rows_of(accepted)["event"][0]["message"].endswith(f"reserved for it, {told}")


def none_possible(**changed: object) -> plans.PreemptionRefused:
    fields: dict = {"workload_id": "w1", "team": "red", "queue": "q", "version": 1}
    fields |= {
        "obstacle": Obstacle.NOT_EVICTABLE,
        "message": "8 GPUs are not preemptible.",
    }
    return plans.PreemptionRefused(
        **fields | {"next_step": "wait", "evidence": {"a": 1}} | changed
    )


def an_accepted_plan() -> plans.EvictionPlanAccepted:
    return plans.EvictionPlanAccepted(
        plan_id="p",
        workload_id="w1",
        team="red",
        queue="q",
        flavor="f",
        rule="reclaim",
        victims=(),
        expires_at_ms=9,
    )


def refusals_after(*batches: list[Wire]) -> list[tuple[list[str], list[str]]]:
    """By batch, of whom it is told why nobody is evicted for them, and of whom no more."""
    projection, found, number = Projection(), [], 0
    for batch in batches:
        messages = []
        for payload in batch:
            number += 1
            messages.append(told(payload, number))
        by_sql = {one.sql: one.arguments for one in projection.decide(messages, 0).writes}
        kept, over = by_sql.get(REFUSALS, ([],)), by_sql.get(REFUSALS_OVER, ([],))
        found.append((list(kept[0]), list(over[0])))
    return found


def test_why_nobody_is_evicted_is_an_event_without_a_state_and_a_row():
    made = rows_of(queued(), none_possible(retry_at_ms=9))

    event = made["event"][-1]
    assert ("", 0) == (event["state"], event["version"])
    assert ("VictimsNotEvictable", "8 GPUs are not preemptible.") == (
        event["reason"],
        event["message"],
    )
    detail = {"next_step": "wait", "evidence": {"a": 1}, "retry_at_ms": 9}
    assert detail == json.loads(event["detail"])


@pytest.mark.parametrize(
    ("then", "over"),
    [
        (placed, ["w1"]),
        (lambda: fact(workloads.WorkloadHeld, 2, State.HELD), ["w1"]),
        (lambda: fact(workloads.WorkloadCancelled, 2, State.CANCELLED), ["w1"]),
        (lambda: none_possible(obstacle=Obstacle.FITS), ["w1"]),
        (an_accepted_plan, ["w1"]),
        (lambda: fact(workloads.WorkloadReprioritised, 1, State.QUEUED), []),
        (queued, []),
    ],
)
def test_it_is_forgotten_with_its_version_a_plan_or_the_obstacle(then, over):
    """In a batch of its own, and in the same."""
    assert [(["w1"], []), ([], over)] == refusals_after([none_possible()], [then()])
    together = [] if over else ["w1"]
    assert [(together, over)] == refusals_after([none_possible(), then()])


def test_what_is_told_of_the_next_version_stays():
    next_one = [fact(workloads.WorkloadReleased, 3, State.QUEUED), none_possible(version=3)]

    found = refusals_after([none_possible()], next_one, [placed(4)], [placed(5)])

    assert [(["w1"], []), (["w1"], []), ([], ["w1"]), ([], [])] == found


async def test_after_a_restart_it_is_known_of_whom_it_is_told():
    class Reader:
        async def fetch(self, sql: str, *_: object) -> list[dict]:
            refusal = {"workload_id": "w1", "version": 1}
            return [refusal if "preemption_refusal" in sql else {"seq": 7}]

    projection = Projection()
    await projection.load(Reader())

    written = projection.decide([told(placed(), 1)], 0).writes

    assert (["w1"],) in [one.arguments for one in written if one.sql == REFUSALS_OVER]
