"""Lists of nodes and cohorts: each once, by name, in pages, with all that others rely on."""

from __future__ import annotations

from typing import Any

from shared.core.model.nouns import (
    Gpu,
    GpuRequest,
    GpuShare,
    Node,
    Placement,
    PodPlacement,
    PodSet,
)
from shared.core.model.units import Resources
from shared.core.model.value import replace
from shared.events import nodes, topics
from shared.events.workloads import WorkloadPlaced
from tests.support import facts as telling
from tests.support.facts import Fact
from tests.support.gateway import Gateway, publish_facts, running_projection, until


def _report(name: str, *, generation: int = 1, **changed: Any) -> Fact:
    gpus = tuple(
        Gpu(index=index, uuid=f"{name}-{index}", memory_mib=80, mig=index == 1)
        for index in range(4)
    )
    amounts: dict[str, Any] = {"cpu_milli": 32_000, "memory_mib": 1 << 18, "product": "H100"}
    node = Node(name=name, gpus=gpus, **{"flavor": "h100", **amounts, **changed})
    return topics.NODE_FACTS, nodes.NodeInventoryReported(node=node, generation=generation)


def _health(name: str, gpu: int, *, generation: int = 2) -> Fact:
    report = nodes.GpuHealthReported(node=name, gpu=gpu, healthy=False, generation=generation)
    return topics.NODE_FACTS, report


def _on_two_gpus_of(name: str) -> list[Fact]:
    """A workload that holds a whole GPU and a quarter of another."""
    shares = (
        GpuShare(index=0, mask=255, milli=1000, memory_mib=0),
        GpuShare(index=2, mask=0, milli=250, memory_mib=20),
    )
    pods = (PodPlacement(pod_set="main", rank=0, node=name, shares=shares),)
    charge = Resources(gpu_milli=1250, cpu_milli=4000, memory_mib=1024)
    placement = Placement(flavor="h100", pods=pods, charge=charge)
    began = telling.started("w1", placement=placement, at_ms=2_000, submitted_at_ms=1_000)
    return [telling.queued("w1", pods=PodSet(), at_ms=1_000), *began]


def _on_a_slice_of(name: str) -> list[Fact]:
    """A workload with one instance of the smallest profile on the GPU in MIG mode."""
    shares = (GpuShare(index=1, mask=1, milli=125, memory_mib=10_240),)
    pods = (PodPlacement(pod_set="main", rank=0, node=name, shares=shares),)
    placement = Placement(flavor="h100", pods=pods, charge=Resources(gpu_milli=125))
    asked = PodSet(gpu=GpuRequest(mig_profile="1g.10gb"))
    began = telling.started("w2", placement=placement, at_ms=2_000, submitted_at_ms=1_000)
    return [telling.queued("w2", pods=asked, at_ms=1_000), *began]


def _placement(facts: list[Fact]) -> Placement:
    (placed,) = (one for _, one in facts if isinstance(one, WorkloadPlaced))
    return placed.placement


async def _listed(gateway: Gateway, query: str = "") -> list[str]:
    reply = await gateway.call("GET", f"/v1/nodes{query}")
    return [one["name"] for one in reply.body["items"]]


async def test_nodes_come_by_name_in_pages_of_a_flavor_or_of_a_pool(gateway: Gateway):
    told = [
        _report("gone"),
        (topics.NODE_FACTS, nodes.NodeRemoved(node="gone", generation=2)),
        _report("n3", pool="a"),
        _report("n1", pool="a", flavor="a100"),
        _report("n2", pool="b"),
        _report("n4", pool="b"),
    ]

    async def four() -> bool:
        return len(await _listed(gateway)) == 4 and "gone" not in await _listed(gateway)

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, told, source="t1", at_ms=1_000)
        await until(four)
    first = (await gateway.call("GET", "/v1/nodes?limit=3")).body
    rest = (await gateway.call("GET", f"/v1/nodes?limit=3&cursor={first['next_cursor']}")).body
    all_at_once = (await gateway.call("GET", "/v1/nodes?limit=4")).body

    assert ["n1", "n2", "n3"] == [one["name"] for one in first["items"]]
    assert ["n4"] == [one["name"] for one in rest["items"]]
    assert ("", "") == (rest["next_cursor"], all_at_once["next_cursor"])
    assert ["n2", "n3", "n4"] == await _listed(gateway, "?flavor=h100")
    assert ["n2", "n4"] == await _listed(gateway, "?pool=b")
    assert ["n3"] == await _listed(gateway, "?flavor=h100&pool=a")
    unknown = await gateway.call("GET", "/v1/nodes?pool=none")
    assert unknown.status == 404


async def test_a_node_tells_where_it_stands_what_it_has_and_what_of_it_is_held(gateway: Gateway):
    told = [
        _report("n1", rack="r1", block="b1", zone="z1", cordoned=True, taints=("team=red",)),
        _health("n1", 3),
        _report("n2"),
        _health("n2", -1),
        *_on_two_gpus_of("n1"),
    ]

    async def used() -> Any:
        items = (await gateway.call("GET", "/v1/nodes")).body["items"]
        whole = len(items) == 2 and items[0]["used_gpu_milli"] and not items[1]["ready"]
        return items if whole else None

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, told, source="t1", at_ms=1_000)
        whole, broken = await until(used)
        one = (await gateway.call("GET", "/v1/nodes/n1")).body
        unknown = await gateway.call("GET", "/v1/nodes/n9")

    wanted: dict[str, Any] = {
        "flavor": "h100",
        "product": "H100",
        "rack": "r1",
        "block": "b1",
        "zone": "z1",
    }
    wanted |= {"gpus": 4, "cpu_milli": 32_000, "memory_mib": 1 << 18, "used_gpu_milli": 1250}
    wanted |= {"ready": True, "cordoned": True, "draining": False, "taints": ["team=red"]}
    wanted |= {"unhealthy_gpus": [3], "mig_gpus": 1}
    assert wanted == {name: whole[name] for name in wanted}
    assert whole == {name: one[name] for name in whole}
    assert (False, [0, 1, 2, 3]) == (broken["ready"], broken["unhealthy_gpus"])
    held = [(gpu["used_milli"], gpu["used_mask"], gpu["workloads"]) for gpu in one["devices"]]
    assert [(1000, 255, ["w1"]), (0, 0, []), (250, 0, ["w1"]), (0, 0, [])] == held
    assert [True, True, True, False] == [gpu["healthy"] for gpu in one["devices"]]
    assert 404 == unknown.status


async def test_a_node_shows_who_has_which_gpu_by_the_word_of_its_kubelet(gateway: Gateway):
    began = _on_two_gpus_of("n1")
    placement = _placement(began)
    moved = tuple(
        replace(one, index=3) if one.index == 0 else one for one in placement.pods[0].shares
    )
    pods = (replace(placement.pods[0], shares=moved),)
    held = nodes.HeldDevices(workload_id="w1", attempt=1, placement=replace(placement, pods=pods))
    fact = nodes.NodeDevicesLearned(node="n1", workloads=(held,))

    async def holders(wanted: list[list[str]]) -> bool:
        devices = (await gateway.call("GET", "/v1/nodes/n1")).body.get("devices", [])
        return [one["workloads"] for one in devices] == wanted

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, [_report("n1"), *began], source="t1", at_ms=1_000)
        await until(lambda: holders([["w1"], [], ["w1"], []]))
        told = [(topics.WORKLOAD_FACTS, fact)]
        await publish_facts(gateway.settings, told, source="t2", at_ms=3_000)
        await until(lambda: holders([[], [], ["w1"], ["w1"]]))


async def test_a_node_shows_which_gpus_are_disputed_until_they_are_settled(
    gateway: Gateway,
) -> None:
    text = "pod w1-1-0: it has 1 GPU by its kubelet and 2 by the ledger"
    fact = nodes.NodeDevicesDisputed(
        node="n1",
        gpus=(2,),
        workload_id="w1",
        attempt=1,
        rank=0,
        devices=("a",),
        message=text,
        disputed=(2, 3),
    )

    async def shown(gpus: list[int], message: str) -> bool:
        one = (await gateway.call("GET", "/v1/nodes/n1")).body
        names = ("disputed_gpus", "unhealthy_gpus", "dispute_message")
        return [one.get(name) for name in names] == [gpus, gpus, message]

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, [_report("n1")], source="t1", at_ms=1_000)
        told = [(topics.WORKLOAD_FACTS, fact)]
        await publish_facts(gateway.settings, told, source="t2", at_ms=2_000)
        await until(lambda: shown([2, 3], text))
        settled = [(topics.WORKLOAD_FACTS, nodes.NodeDevicesSettled(node="n1"))]
        await publish_facts(gateway.settings, settled, source="t3", at_ms=3_000)
        await until(lambda: shown([], ""))


async def test_flavors_are_summed_and_a_node_tells_its_mig_instances(gateway: Gateway):
    viewer = await gateway.key("red", "viewer")
    product: dict[str, Any] = {"product": "NVIDIA-H100-80GB-HBM3"}
    told = [
        _report("n1", rack="r1", **product),
        _report("n2", rack="r1", **product),
        _report("n3", rack="r2", flavor="a100"),
        *_on_two_gpus_of("n1"),
        *_on_a_slice_of("n1"),
    ]

    async def summed() -> Any:
        reply = await gateway.call("GET", "/v1/nodes:summary", key=viewer)
        items = reply.body["items"]
        return items if (3, 1375) == (sum(one["nodes"] for one in items), _used(items)) else None

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, told, source="t1", at_ms=1_000)
        a100, h100 = await until(summed)
    one = (await gateway.call("GET", "/v1/nodes/n1", key=viewer)).body
    listed = (await gateway.call("GET", "/v1/nodes?flavor=h100", key=viewer)).body["items"][0]
    only = await gateway.call("GET", "/v1/nodes:summary?flavor=a100")
    unknown = await gateway.call("GET", "/v1/nodes:summary?flavor=b200")

    assert ("a100", 3, 0) == tuple(
        a100[name] for name in ("flavor", "free_gpus", "used_gpu_milli")
    )
    rack = next(gang for gang in h100["largest_gangs"] if gang["level"] == "rack")
    assert ("r1", 4, 0, 2) == tuple(
        rack[name] for name in ("place", "gpus", "full_node_gpus", "nodes")
    )
    smallest = {"profile": "1g.10gb", "used": 1, "free": 6}
    assert smallest == one["devices"][1]["mig_profiles"][0] == listed["mig_profiles"][0]
    assert [] == one["devices"][0]["mig_profiles"]
    assert {"profile": "1g.10gb", "used": 1, "free": 13} == h100["mig_profiles"][0]
    assert ["a100"] == [row["flavor"] for row in only.body["items"]]
    assert 404 == unknown.status
    assert "there are: a100, h100" in unknown.body["detail"]


def _used(items: Any) -> int:
    return sum(one["used_gpu_milli"] for one in items)


async def test_cohorts_come_by_name_with_their_documents_and_everybody_sees_them(
    gateway: Gateway,
):
    viewer = await gateway.key("red", "viewer")
    pool = {"flavor": "h100", "nominal": {"gpu_milli": 16_000}, "lending_limit": {"gpu_milli": 1}}
    await gateway.call("PATCH", "/v1/cohorts/org", {"flavors": [pool]})
    await gateway.call("PATCH", "/v1/cohorts/lab", {"parent": "org", "weight": 3})
    await gateway.call("PATCH", "/v1/cohorts/lab", {"parent": "org", "weight": 4})

    listed = (await gateway.call("GET", "/v1/cohorts", key=viewer)).body
    lab, org = [await gateway.call("GET", f"/v1/cohorts/{one}") for one in ("lab", "org")]
    unknown = await gateway.call("GET", "/v1/cohorts/none")

    assert [lab.body, org.body] == listed["items"]
    assert ("org", 4, 2, []) == tuple(
        lab.body[name] for name in ("parent", "weight", "version", "flavors")
    )
    tags = [reply.headers["ETag"] for reply in (lab, org)]
    assert ['W/"2', 'W/"1'] == [tag.partition(".")[0] for tag in tags]  # behind it, live numbers
    (flavor,) = org.body["flavors"]
    assert ("h100", 16_000, 1) == (
        flavor["flavor"],
        flavor["nominal"]["gpu_milli"],
        flavor["lending_limit"]["gpu_milli"],
    )
    assert 404 == unknown.status


async def test_a_flavor_with_a_short_name_of_a_product_hears_how_nodes_report_it(
    gateway: Gateway,
):
    told = [_report("n1", product="NVIDIA-H100-NVL")]

    async def one() -> bool:
        return await _listed(gateway) == ["n1"]

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, told, source="t1", at_ms=1_000)
        await until(one)
    short = await gateway.call("PATCH", "/v1/flavors/f", {"products": ["H100"]})
    full = await gateway.call("PATCH", "/v1/flavors/f", {"products": ["NVIDIA-H100-NVL"]})

    assert (400, 201) == (short.status, full.status)
    (error,) = short.body["errors"]
    assert error["field"] == "products[0]"
    assert error["rule"] == "must be named as nodes report it: NVIDIA-H100-NVL"
