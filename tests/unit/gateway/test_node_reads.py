"""Nodes as they are read: whose workloads on a device are named to whom."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import make_mocked_request

from services.gateway.api.routes import ROUTES
from services.gateway.app.context import RequestContext
from services.gateway.fleet import get_node
from services.gateway.http.authorisation import Role, Subject
from shared.core.model.nouns import Gpu, GpuShare, Node, Placement, PodPlacement
from shared.core.model.units import Resources

GPUS = tuple(Gpu(index=at, uuid=f"g{at}", memory_mib=81_559) for at in range(3))
NODE = Node(name="n1", flavor="h100", product="H100", cpu_milli=1, memory_mib=1, gpus=GPUS)


class Reader:
    """One node, and what holds its devices."""

    async def fetch(self, statement: str, *arguments: Any) -> list[dict[str, Any]]:
        if "gateway.workload" in statement:
            return [
                holder("w1", "red", 0, 250),
                holder("w2", "blue", 0, 500),
                holder("w3", "blue", 1),
            ]
        row: dict[str, Any] = dict.fromkeys(
            ("cordon", "cordon_message", "shun_message", "dispute_message"), ""
        )
        row |= {"name": "n1", "cell": 0, "body": encoded(NODE), "removed": False}
        return [
            row
            | {
                "unhealthy": None,
                "gone_at_ms": 0,
                "shunned_until_ms": 0,
                "disputed": "[]",
                "devices": "{}",
                "trends": "[]",
            }
        ]


def encoded(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def holder(identifier: str, team: str, gpu: int, milli: int = 1000) -> dict[str, Any]:
    share = GpuShare(index=gpu, mask=0 if milli < 1000 else 255, milli=milli, memory_mib=0)
    pod = PodPlacement(pod_set="main", rank=0, node="n1", shares=(share,))
    placement = Placement(flavor="h100", pods=(pod,), charge=Resources(gpu_milli=milli))
    return {"id": identifier, "team": team, "placement": encoded(placement)}


async def devices(team: str, role: Role) -> list[dict[str, Any]]:
    request = make_mocked_request("GET", "/v1/nodes/n1", match_info={"name": "n1"})
    route = next(one for one in ROUTES if one.name == "get_node")
    call = RequestContext(
        request=request, route=route, subject=Subject(name="k", team=team, role=role)
    )
    gateway: Any = SimpleNamespace(reader=Reader())
    reply = await get_node(gateway, call)
    found: list[dict[str, Any]] = msgspec.json.decode(reply.body)["devices"]  # type: ignore[arg-type]  # bytes
    return found


@pytest.mark.parametrize(
    ("team", "role", "named", "others"),
    [
        ("red", Role.VIEWER, [["w1"], [], []], [1, 1, 0]),
        ("blue", Role.ADMIN, [["w2"], ["w3"], []], [1, 0, 0]),
        ("green", Role.ADMIN, [[], [], []], [2, 1, 0]),
        ("", Role.OPERATOR, [["w1", "w2"], ["w3"], []], [0, 0, 0]),
    ],
)
async def test_of_who_holds_a_device_only_those_are_named_that_the_caller_may_read(
    team, role, named, others
):
    found = await devices(team, role)

    assert named == [one["workloads"] for one in found]
    assert others == [one["workloads_of_others"] for one in found]
    assert [(750, 0), (1000, 255), (0, 0)] == [
        (one["used_milli"], one["used_mask"]) for one in found
    ]
