"""A node of Kubernetes becomes an inventory; how a NotReady node stands."""

import pytest

from shared.core.cluster.inventory import IMAGES_MAX, problem_of
from shared.core.kubernetes.devices import NO_DEVICES, Devices
from shared.core.kubernetes.inventory import (
    KubernetesNode,
    LabelKeys,
    Taint,
    Use,
    gpu_memory_mib,
    inventory,
    is_counted,
    uses_mig,
)
from shared.core.kubernetes.requests import TakenResources
from shared.core.kubernetes.standing import OUT_OF_SERVICE, NodeStanding, Readiness, judge
from shared.core.model.nouns import Gpu

KEYS = LabelKeys(
    flavor=("flavor",), product=("product",), memory=("memory",), pool=("first", "pool"),
    driver=("driver",), cuda=("cuda",), mig_strategy=("mig",), zone=("zone",), block=("block",),
    rack=("rack",), nvlink_domain=("clique",),
)  # fmt: skip
LABELS = {
    "product": "NVIDIA-H100", "memory": "81559", "pool": "research", "driver": "580.95.05",
    "cuda": "13.0", "zone": "z", "block": "b", "rack": "r", "clique": "c.1",
}  # fmt: skip
COUNTED = {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "2"}


def a_node(labels=None, amounts=None, **others):
    amounts = COUNTED if amounts is None else amounts
    return KubernetesNode(
        name="n", labels=LABELS if labels is None else labels, capacity=amounts,
        allocatable=amounts, **others,
    )  # fmt: skip


NO_USE = Use()


def read(node, devices=NO_DEVICES, use=NO_USE, standing=NodeStanding.READY, flavors=None):
    found = inventory(node, devices, use, standing=standing, keys=KEYS, flavors=flavors or {})
    assert problem_of(found) == ""
    return found


def test_labels_tell_product_memory_pool_versions_and_the_fabric():
    node = read(a_node())

    assert ("NVIDIA-H100", "research", "580.95.05", "13.0") == (
        node.product, node.pool, node.driver, node.cuda,
    )  # fmt: skip
    assert ("z", "b", "r", "c.1") == (node.zone, node.block, node.rack, node.nvlink_domain)
    assert [81_559, 81_559] == [gpu.memory_mib for gpu in node.gpus]
    assert (True, False) == (node.ready, node.cordoned)


def test_the_first_key_that_a_node_has_counts_and_an_empty_label_is_none():
    both = read(a_node(labels={"first": "a", "pool": "b"}))
    empty = read(a_node(labels={"first": "", "pool": "b"}))

    assert ("a", "b") == (both.pool, empty.pool)


def test_the_flavor_comes_from_a_label_a_table_or_the_product():
    assert "x" == read(a_node(labels={**LABELS, "flavor": "x"})).flavor
    assert "h100" == read(a_node(), flavors={"NVIDIA-H100": "h100"}).flavor
    assert "nvidia-h100" == read(a_node()).flavor
    assert "cpu" == read(a_node(amounts={"cpu": "8"})).flavor


@pytest.mark.parametrize(("value", "allowed"), [("allowed", True), ("yes", False), (None, False)])
def test_faults_on_purpose_are_allowed_by_a_label_with_its_value_alone(value, allowed):
    labels = LABELS if value is None else {**LABELS, "muster.dev/chaos": value}

    assert allowed is read(a_node(labels=labels)).chaos


def test_a_node_without_gpus_has_no_product():
    assert "" == read(a_node(amounts={"cpu": "8"})).product


@pytest.mark.parametrize(("text", "memory_mib"), [("81559", 81_559), ("80GB", 0), ("٣", 0)])
def test_a_memory_label_that_is_no_number_is_unknown(text, memory_mib):
    assert memory_mib == gpu_memory_mib(a_node(labels={"memory": text}), KEYS)


@pytest.mark.parametrize(
    ("labels", "mig"), [({}, False), ({"mig": "none"}, False), ({"mig": "mixed"}, True)]
)
def test_a_strategy_other_than_none_says_that_mig_is_used(labels, mig):
    assert mig is uses_mig(a_node(labels=labels), KEYS)


def test_what_others_take_is_not_there_and_cores_are_whole():
    use = Use(others=TakenResources(cpu_milli=1100, memory_bytes=(1 << 30) + 1, gpus=1))

    node = read(a_node(), use=use)

    assert (6000, 15 * 1024 - 1) == (node.cpu_milli, node.memory_mib)
    assert [True, False] == [gpu.healthy for gpu in node.gpus]


def test_others_may_take_more_than_there_is():
    node = read(a_node(), use=Use(others=TakenResources(cpu_milli=9_000, memory_bytes=1 << 40)))

    assert (0, 0) == (node.cpu_milli, node.memory_mib)


def test_a_node_that_tells_no_amounts_has_none():
    node = read(a_node(amounts={}))

    assert (0, 0, ()) == (node.cpu_milli, node.memory_mib, node.gpus)


def test_a_node_is_served_by_its_device_plugin_or_by_slices_never_by_both():
    told = Devices(
        gpus=(Gpu(index=5, uuid="GPU-5", memory_mib=1),), product="P", driver="1", cuda="2"
    )

    counted = read(a_node(), told)
    sliced = read(a_node(labels={}, amounts={"cpu": "8"}), told)

    assert is_counted(a_node())
    assert ["", ""] == [gpu.uuid for gpu in counted.gpus]
    assert (("GPU-5", "P", "1", "2")) == (
        sliced.gpus[0].uuid, sliced.product, sliced.driver, sliced.cuda,
    )  # fmt: skip


def test_all_devices_of_a_plugin_may_be_unhealthy():
    node = KubernetesNode(name="n", capacity=COUNTED)

    assert [False, False] == [gpu.healthy for gpu in read(node).gpus]


def test_a_cordoned_node_and_one_that_rests_take_no_new_work():
    assert read(a_node(unschedulable=True)).cordoned
    resting = read(a_node(), standing=NodeStanding.RESTING)
    assert (True, True) == (resting.ready, resting.cordoned)


def test_a_lost_node_is_not_ready():
    assert not read(a_node(), standing=NodeStanding.LOST).ready


def test_taints_are_told_in_full():
    node = read(
        a_node(
            taints=(
                Taint(key="k", effect="NoExecute"),
                Taint(key="a", value="v", effect="NoSchedule"),
                Taint(key="bare"),
            )
        )
    )

    assert ("a=v:NoSchedule", "bare", "k:NoExecute") == node.taints


def test_images_are_bounded_and_those_with_a_tag_come_first():
    images = (
        ("r.io/a@sha256:1", "r.io/a:1"),
        ("r.io/a:1", "", "x" * 2000),
        *((f"r.io/b:{number}",) for number in range(IMAGES_MAX)),
    )

    found = read(a_node(images=images)).images

    assert ("r.io/a:1", IMAGES_MAX) == (found[0], len(found))
    assert "r.io/a@sha256:1" not in found
    long = "r.io/a:a-tag-that-is-long"
    assert (long, "r.io/a@sha256:1") == read(a_node(images=(("r.io/a@sha256:1", long),))).images


MINUTE_MS = 60_000
SINCE_MS = 1_000_000
NOT_READY = Readiness(since_ms=SINCE_MS, reason="KubeletNotReady", message="no network")


def judged(after_ms, readiness=NOT_READY, taints=(), ready_ms=0):
    return judge(
        readiness, taints, now_ms=SINCE_MS + after_ms, ready_ms=ready_ms,
        lost_after_ms=2 * MINUTE_MS,
    )  # fmt: skip


def test_a_ready_node_is_ready():
    assert (NodeStanding.READY, "", None) == judged(0, Readiness(ready=True))


def test_a_node_that_is_not_ready_for_a_minute_rests():
    found = judged(MINUTE_MS)

    assert (NodeStanding.RESTING, SINCE_MS + 2 * MINUTE_MS) == (found.standing, found.until_ms)
    assert "NotReady: KubeletNotReady: no network" == found.reason


def test_after_its_time_it_is_lost():
    found = judged(2 * MINUTE_MS)

    assert NodeStanding.LOST is found.standing
    assert "NotReady for more than 120 s: KubeletNotReady: no network" == found.reason
    assert NodeStanding.RESTING is judged(2 * MINUTE_MS - 1).standing


def test_a_node_that_was_seen_ready_later_rests_from_then_on():
    found = judged(2 * MINUTE_MS, ready_ms=SINCE_MS + MINUTE_MS)

    assert (NodeStanding.RESTING, SINCE_MS + 3 * MINUTE_MS) == (found.standing, found.until_ms)


def test_a_time_in_the_future_counts_as_now():
    found = judged(-MINUTE_MS)

    assert (NodeStanding.RESTING, SINCE_MS + MINUTE_MS) == (found.standing, found.until_ms)


def test_a_node_that_was_never_ready_is_lost():
    found = judged(0, Readiness())

    assert "NotReady for more than 120 s: no condition Ready" == found.reason


def test_a_node_out_of_service_is_lost_at_once():
    found = judged(0, Readiness(ready=True), taints=("x", OUT_OF_SERVICE))

    assert NodeStanding.LOST is found.standing
    assert OUT_OF_SERVICE in found.reason
