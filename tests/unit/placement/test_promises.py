"""Promised starts through the handler: who is the head, what is told, who goes first."""

from __future__ import annotations

import pytest

from shared.core.model.lifecycle import State
from shared.core.model.nouns import WorkloadKind
from shared.core.model.value import replace
from shared.events.nodes import CordonNode, KeptFor, NodeNoticeReported, NodeRemoved, UncordonNode
from shared.events.pods import PodsFinished, PodsGone, PodsRunning
from shared.events.quotas import DebtsTold, FlavorQuota, NominationWithdrawn
from shared.events.workloads import CancelWorkload, PlacementRefused, WorkloadPlaced
from tests.support.placement_driver import (
    FLAVOR,
    Driver,
    a_node,
    a_quota,
    a_workload,
    command,
    gpu_limit,
    nominated,
    pod_fact,
    reported,
)


def driver_with(*nodes):
    """A driver with quota and some nodes."""
    driver = Driver()
    driver.send(a_quota(gpus=1_000), *(reported(node) for node in nodes))
    return driver


def test_a_promised_start_is_told_with_the_reason_and_once():
    driver = driver_with(a_node())
    driver.send(nominated(a_workload("full", gpus=8, expected_duration_seconds=600)))
    driver.send(pod_fact(PodsRunning, "full"))

    told = driver.send(nominated(a_workload("next", gpus=8, expected_duration_seconds=60)))
    (kept,) = driver.kept_nodes()
    again = driver.send(nominated(a_workload("small", gpus=1, expected_duration_seconds=60)))

    promised = [one for one in told if isinstance(one, PlacementRefused)][-1]
    assert "next" == promised.workload_id
    assert driver.now_ms < promised.evidence["promised_start_ms"] <= driver.now_ms + 600_000
    assert 1 == promised.evidence["promised_nodes"]
    assert "on 1 node kept for it" in promised.message
    assert "at the latest" not in promised.message
    assert kept.kept == (KeptFor(workload_id="next", pin=1, nodes=("n1",)),)
    assert [] == driver.kept_nodes()
    assert "next" not in [one.workload_id for one in again if isinstance(one, PlacementRefused)]


@pytest.mark.parametrize(
    ("hours_ago", "first"),
    [({"long": 3, "short": 2}, "short"), ({"long": 73, "short": 2}, "long")],
)
def test_the_head_is_who_waited_longest_for_its_length_until_somebody_is_old(hours_ago, first):
    driver = driver_with(a_node())
    driver.send(nominated(a_workload("full", gpus=8, expected_duration_seconds=600)))
    driver.send(pod_fact(PodsRunning, "full"))
    lengths = {"long": 36_000, "short": 60}
    waiting = [
        replace(
            a_workload(name, gpus=8, expected_duration_seconds=seconds),
            submitted_at_ms=driver.now_ms - hours_ago[name] * 3_600_000,
        )
        for name, seconds in lengths.items()
    ]

    driver.send(*map(nominated, waiting))

    promises = driver.handler.state.promises
    starts = {name: promises.of(name).start_ms for name in lengths}
    assert first == min(lengths, key=starts.__getitem__)


def test_the_head_is_of_the_queue_that_was_kept_shortest_lately():
    driver = Driver()
    driver.send(a_quota("all", gpus=1_000, kind="cohort"), reported(a_node()))
    queues = ["even", "rich", "poor"]
    driver.send(*(a_quota(name, gpus=0, parent="all") for name in queues))
    driver.send(nominated(a_workload("full", queue="poor", gpus=8, expected_duration_seconds=600)))
    driver.send(pod_fact(PodsRunning, "full"))
    driver.send(DebtsTold(debts={"rich": 5_000, "poor": -5_000}, at_ms=driver.now_ms))

    driver.send(
        *(
            of_age(a_workload(name, queue=name, gpus=8, expected_duration_seconds=60), age)
            for age, name in enumerate(queues, 1)
        )
    )

    starts = {one.workload_id: one.start_ms for one in driver.handler.state.promises.standing}
    assert ["poor", "even"] == sorted(starts, key=starts.__getitem__), "a third has no room"


def of_age(workload, age, number=1):
    """Permission to try it; who has the smaller `age` came first."""
    return replace(nominated(workload, number=number), order_key=(0, age))


def test_a_promised_gang_takes_its_nodes_before_others_that_are_older():
    driver = driver_with(a_node())
    driver.send(nominated(a_workload("full", gpus=8, expected_duration_seconds=600)))
    driver.send(pod_fact(PodsRunning, "full"))
    driver.send(of_age(a_workload("gang", gpus=8, expected_duration_seconds=60), 2))
    assert driver.handler.state.promises.of("gang") is not None
    driver.send(of_age(a_workload("small", gpus=1, expected_duration_seconds=60), 1))

    driver.send(pod_fact(PodsFinished, "full", succeeded=True))

    assert State.PLACED is driver.state("gang")
    assert State.QUEUED is driver.state("small")
    assert 0 == driver.handler.state.cluster.nodes["n1"].pin


def test_a_gang_that_lost_a_node_goes_before_older_ones_that_never_ran():
    driver = driver_with(a_node("n1"), a_node("n2"))
    driver.send(of_age(a_workload("ran", gpus=8, pod_count=2), 2))
    driver.send(pod_fact(PodsRunning, "ran"))
    driver.send(of_age(a_workload("older", gpus=8, pod_count=2), 1))
    driver.send(NodeRemoved(node="n2", generation=2))
    driver.send(pod_fact(PodsGone, "ran"))
    driver.send(of_age(a_workload("ran", gpus=8, pod_count=2), 2, number=2))
    states = [driver.state(name) for name in ("ran", "older")]
    assert [State.QUEUED, State.QUEUED] == states

    driver.send(reported(a_node("n2"), 3))

    assert State.PLACED is driver.state("ran")
    assert State.QUEUED is driver.state("older")


@pytest.mark.parametrize(("queue", "starts"), [("owner", True), ("guest", False)])
def test_what_is_owed_takes_nodes_that_are_kept_for_who_borrows(queue, starts):
    driver = Driver()
    driver.send(a_quota("all", gpus=20, kind="cohort"), reported(a_node()))
    driver.send(a_quota("owner", gpus=2, parent="all"), a_quota("guest", gpus=0, parent="all"))
    runs = a_workload("runs", gpus=6, queue="guest", expected_duration_seconds=600)
    driver.send(nominated(runs))
    driver.send(pod_fact(PodsRunning, "runs"))
    driver.send(nominated(a_workload("next", gpus=8, queue="guest", expected_duration_seconds=9)))

    told = driver.send(nominated(a_workload("small", gpus=1, queue=queue)))

    placed = [one.workload_id for one in told if isinstance(one, WorkloadPlaced)]
    assert placed == (["small"] if starts else [])


def test_what_is_owed_takes_nodes_of_the_second_start_where_only_the_first_is_owed():
    """The guest owns eight GPUs, and is promised two nodes of eight."""
    driver = Driver()
    driver.send(a_quota("all", gpus=40, kind="cohort"))
    driver.send(reported(a_node("n1")), reported(a_node("n2")))
    for name, gpus in (("owner", 2), ("guest", 8), ("third", 0)):
        driver.send(a_quota(name, gpus=gpus, parent="all"))
    for name in ("runs", "too"):
        runs = a_workload(name, gpus=6, queue="third", expected_duration_seconds=600)
        driver.send(nominated(runs))
        driver.send(pod_fact(PodsRunning, name))
    for name, seconds in (("first", 9), ("second", 99)):
        asked = a_workload(name, gpus=8, queue="guest", expected_duration_seconds=seconds)
        driver.send(nominated(asked))
    nodes = {one.workload_id: one.nodes for one in driver.handler.state.promises.standing}

    for number in range(3):
        driver.send(nominated(a_workload(f"small{number}", gpus=1, queue="owner")))

    placed = [driver.placement(f"small{number}").pods[0].node for number in range(2)]
    assert [*nodes["second"], *nodes["second"]] == placed
    assert State.QUEUED is driver.state("small2"), "it borrows"


def test_who_borrowed_takes_nodes_that_are_kept_for_borrowers_once_it_is_owed():
    driver = Driver()
    driver.send(a_quota("all", gpus=20, kind="cohort"), reported(a_node("n1", gpus=1)))
    driver.send(a_quota("owner", gpus=1, parent="all"), a_quota("guest", gpus=0, parent="all"))
    driver.send(nominated(a_workload("mine", gpus=1, queue="owner")))
    driver.send(reported(a_node("n1", gpus=1, cordoned=True), 2), reported(a_node("n2")))
    runs = a_workload("runs", gpus=6, queue="guest", expected_duration_seconds=600)
    driver.send(nominated(runs))
    driver.send(pod_fact(PodsRunning, "runs"))
    driver.send(nominated(a_workload("next", gpus=8, queue="guest", expected_duration_seconds=9)))
    driver.send(nominated(a_workload("small", gpus=1, queue="owner")))
    assert State.QUEUED is driver.state("small")

    driver.send(pod_fact(PodsFinished, "mine", succeeded=True))

    assert State.PLACED is driver.state("small")


@pytest.mark.parametrize(
    ("hours_ago", "first"), [(3, "brief"), (73, "older"), (1, "urgent")], ids=str
)
def test_of_heads_without_promise_who_waited_longest_for_its_length_starts(hours_ago, first):
    driver = driver_with(a_node())
    endless = a_workload("full", gpus=8)
    spec = replace(endless.spec, kind=WorkloadKind.INFERENCE, preemptible=False)
    driver.send(nominated(replace(endless, spec=spec)))
    driver.send(pod_fact(PodsRunning, "full"))
    heads = {"older": (36_000, hours_ago), "brief": (60, 2)}
    for age, (name, (seconds, hours)) in enumerate(heads.items(), 1):
        head = replace(
            a_workload(name, gpus=8, expected_duration_seconds=seconds),
            submitted_at_ms=driver.now_ms - hours * 3_600_000,
        )
        driver.send(of_age(head, age))
    if first == "urgent":
        urgent = a_workload("urgent", gpus=1, priority=10, expected_duration_seconds=72_000)
        driver.send(replace(nominated(urgent), order_key=(-10, 3)))
    assert not driver.handler.state.promises.standing

    driver.send(pod_fact(PodsFinished, "full", succeeded=True))

    waiting = {"older", "brief", "urgent"} - {first}
    assert State.PLACED is driver.state(first)
    assert all(driver.state(name) is not State.PLACED for name in waiting & heads.keys())


def cell_of_two(mine, others):
    """48 GPUs, of which `mine` and `others` own half each, and use so many nodes."""
    driver = Driver()
    cohort = a_quota("all", gpus=0, kind="cohort")
    driver.send(cohort, *(reported(a_node(f"n{number}")) for number in range(6)))
    for queue, count in {"mine": mine, "others": others}.items():
        driver.send(a_quota(queue, gpus=24, parent="all"))
        for number in range(count):
            work = of(queue, f"{queue}-{number}", seconds=600 if number else 540)
            driver.send(nominated(work))
            driver.send(pod_fact(PodsRunning, f"{queue}-{number}"))
    return driver


def of(queue, name, pods=1, seconds=60):
    size = {"pod_count": pods, "gpus": 8, "expected_duration_seconds": seconds}
    return a_workload(name, queue=queue, **size)


@pytest.mark.parametrize(("pods", "promised"), [(3, {"gang"}), (4, set())])
def test_nodes_are_kept_only_for_what_others_do_not_own_and_use(pods, promised):
    driver = cell_of_two(mine=0, others=6)

    driver.send(nominated(of("mine", "gang", pods)))

    promises = driver.handler.state.promises.standing
    assert promised == {one.workload_id for one in promises}


def test_the_first_who_can_have_his_quota_is_promised_a_start():
    driver = cell_of_two(mine=0, others=6)

    driver.send(nominated(of("mine", "wide", pods=4)), nominated(of("mine", "narrow", pods=3)))

    promises = driver.handler.state.promises.standing
    assert ["narrow"] == [one.workload_id for one in promises]


@pytest.mark.parametrize("mine", [3, 4])
def test_a_promise_is_given_up_when_others_use_what_they_own_and_that_is_told(mine):
    """With 3 there is a free node: they do so a while before anybody looks at promises again."""
    driver = cell_of_two(mine=mine, others=2)
    driver.send(nominated(of("mine", "gang", pods=4)))
    promised = driver.handler.state.promises.of("gang")
    driver.send(nominated(of("others", "owed", seconds=600)))
    if mine == 3:
        driver.send(pod_fact(PodsRunning, "owed"))

    driver.wait(540)
    last = driver.handler.state.promises.of("gang")
    told = driver.send(pod_fact(PodsFinished, "mine-0", succeeded=True))

    assert promised is not None, "its own queue's work ends"
    assert driver.handler.state.promises.of("gang") is None
    given_up = told_last(told)
    assert "promised_start_ms" not in given_up.evidence
    assert last is not None
    assert last.promised_ms == given_up.evidence["broken_promise_ms"]
    assert "UTC is not kept: others that go before it took the quota" in given_up.message
    driver.send(pod_fact(PodsRunning, "owed"))

    told = driver.send(pod_fact(PodsFinished, "owed", succeeded=True))

    assert promised.promised_ms == told_last(told).evidence["promised_start_ms"], "told again"
    assert "broken_promise_ms" not in told_last(told).evidence, "told once"


def test_a_start_that_becomes_later_is_told_with_the_one_that_is_not_kept():
    driver = driver_with(a_node())
    driver.send(nominated(a_workload("full", gpus=8, expected_duration_seconds=600)))
    driver.send(pod_fact(PodsRunning, "full"))
    driver.send(nominated(of("q", "gang")))
    first = driver.handler.state.promises.of("gang")

    told = driver.wait(700)

    assert first is not None
    later = told_last(told)
    assert first.promised_ms == later.evidence["broken_promise_ms"]
    assert later.evidence["promised_start_ms"] > first.promised_ms
    assert "is not kept: the nodes that were kept for it are not free by then" in later.message


@pytest.mark.parametrize("others_began", [True, False])
def test_whose_turn_was_taken_back_hears_at_its_next_trial_that_its_promise_is_not_kept(
    others_began,
):
    driver = driver_with(a_node())
    driver.send(nominated(a_workload("full", gpus=8, expected_duration_seconds=600)))
    driver.send(pod_fact(PodsRunning, "full"))
    driver.send(nominated(of("q", "gang")))
    first = driver.handler.state.promises.of("gang")
    assert first is not None
    driver.send(NominationWithdrawn(workload_id="gang", nomination=1))
    if others_began:  # others have begun meanwhile: it cannot start as early
        driver.wait(700)

    told = driver.send(nominated(of("q", "gang"), number=2))

    again = told_last(told)
    if others_began:
        assert first.promised_ms == again.evidence["broken_promise_ms"]
        assert "is not kept: others that go before it took the quota" in again.message
    else:
        assert "broken_promise_ms" not in again.evidence, "it is promised the same start"
    later = driver.handler.state.promises
    later.begin()
    assert later.broken("gang") is None, "told once"


def told_last(facts):
    *_, last = [one for one in facts if isinstance(one, PlacementRefused)]
    assert "gang" == last.workload_id
    return last


def test_nodes_are_kept_in_a_flavor_in_which_it_can_have_its_quota():
    """Nodes come free first in the flavor that others own: until they use it themselves."""
    driver = Driver()
    flavors = {FLAVOR: ("others", 60), "l40s": ("mine", 600)}
    driver.send(a_quota("all", gpus=0, kind="cohort", flavors=flavors))
    for number, (flavor, (queue, _)) in enumerate(flavors.items()):
        limits = tuple(
            FlavorQuota(flavor=one, nominal=gpu_limit(8 * (one == flavor))) for one in flavors
        )
        quota = replace(a_quota(queue, parent="all"), flavors=limits)
        driver.send(quota, reported(a_node(f"n{number}", flavor=flavor)))
    for flavor, (_, seconds) in flavors.items():
        driver.send(nominated(of("mine", flavor, seconds=seconds), flavors=[flavor]))
        driver.send(pod_fact(PodsRunning, flavor))
    driver.send(nominated(of("mine", "next"), flavors=list(flavors)))
    before = driver.handler.state.promises.of("next")
    driver.send(nominated(of("others", "owed"), flavors=list(flavors)))

    driver.wait(60)
    driver.send(pod_fact(PodsFinished, FLAVOR, succeeded=True))

    after = driver.handler.state.promises.of("next")
    assert State.PLACED is driver.state("owed")
    assert (FLAVOR, "l40s") == (before and before.flavor, after and after.flavor)


def test_what_is_owed_takes_kept_nodes_of_its_own_flavor_before_it_borrows_in_another():
    driver = Driver()
    owners = {FLAVOR: "mine", "l40s": "others"}
    driver.send(a_quota("all", gpus=0, kind="cohort", flavors=owners))
    for number, (flavor, queue) in enumerate(owners.items()):
        limits = tuple(
            FlavorQuota(flavor=one, nominal=gpu_limit(8 * (one == flavor))) for one in owners
        )
        quota = replace(a_quota(queue, parent="all"), flavors=limits)
        driver.send(quota, reported(a_node(f"n{number}", flavor=flavor)))
    runs = a_workload("runs", gpus=6, queue="others", expected_duration_seconds=600)
    driver.send(nominated(runs))
    driver.send(pod_fact(PodsRunning, "runs"))
    driver.send(nominated(a_workload("next", gpus=8, queue="others", expected_duration_seconds=9)))
    assert driver.handler.state.promises.of("next") is not None

    for number in range(3):
        small = a_workload(f"small{number}", gpus=1, queue="mine")
        driver.send(nominated(small, flavors=list(owners)))

    placed = [driver.placement(f"small{number}").flavor for number in range(3)]
    assert [FLAVOR, FLAVOR, "l40s"] == placed, "two were free, and it owns them"


def test_heads_of_one_flavor_leave_other_flavors_their_promises():
    """Eight nodes of each, all in use: three starts are promised in each, and no fourth."""
    driver = Driver()
    flavors = {FLAVOR: gpu_limit(1_000), "l40s": gpu_limit(1_000)}
    driver.send(a_quota(flavors=flavors))
    for flavor in flavors:
        for number in range(8):
            driver.send(reported(a_node(f"{flavor}-{number}", flavor=flavor)))
            name = f"on-{flavor}-{number}"
            driver.send(nominated(of("q", name, seconds=600), flavors=[flavor]))
            driver.send(pod_fact(PodsRunning, name))
    for name, pods, seconds, choice in (
        ("a", 2, 60, [FLAVOR]),
        ("b", 1, 60, [FLAVOR]),
        ("c", 1, 600, [FLAVOR]),
        ("d", 1, 6_000, [FLAVOR]),
        ("other", 2, 60, ["l40s"]),
        ("either", 3, 60, [*flavors]),
    ):
        driver.send(nominated(of("q", name, pods, seconds), flavors=choice))

    promises = {one.workload_id: one for one in driver.handler.state.promises.standing}

    in_first = [one for one in promises.values() if one.flavor == FLAVOR]
    assert 3 == len(in_first)
    assert ["l40s", "l40s"] == [promises[name].flavor for name in ("other", "either")]
    assert len(promises) == len({one.number for one in promises.values()})


def two_that_end(driver):
    """Work on n1 ends in 900 s, on n2 in 600 s; `next` is promised n2."""
    for name, seconds in (("n1", 900), ("n2", 600)):
        driver.send(reported(a_node(name)), nominated(of("q", f"on-{name}", seconds=seconds)))
        driver.send(pod_fact(PodsRunning, f"on-{name}"))
    driver.send(nominated(of("q", "next")))
    assert ("n2",) == driver.handler.state.promises.of("next").nodes
    return driver


@pytest.mark.parametrize(
    "news",
    [CordonNode(node="n2"), NodeNoticeReported(node="n2", gone_at_ms=0, generation=2)],
    ids=["cordon", "notice"],
)
def test_a_start_is_promised_elsewhere_as_soon_as_its_node_takes_no_work(news):
    driver = two_that_end(driver_with())

    driver.send(news)

    promise = driver.handler.state.promises.of("next")
    assert (("n1",), 900_000) == (promise.nodes, promise.promised_ms - driver.now_ms)


def test_a_start_is_promised_and_told_as_soon_as_its_node_is_given_back():
    driver = two_that_end(driver_with())
    driver.send(command(CancelWorkload, "next"), CordonNode(node="n2"))
    driver.send(nominated(of("q", "gang", pods=2)))
    assert driver.handler.state.promises.of("gang") is None

    told = driver.send(UncordonNode(node="n2"))

    assert told_last(told).evidence["promised_start_ms"] == driver.now_ms + 900_000
