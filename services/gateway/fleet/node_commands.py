"""Commands to a node, or to a GPU of it: accepted when durable, done by placement."""

from __future__ import annotations

from aiohttp import web

from services.gateway.app.committer import Order
from services.gateway.app.context import GatewayContext, RequestContext, answer
from services.gateway.app.existing import missing_node
from services.gateway.app.submission_rows import cause_of
from services.gateway.http.problems import Problem
from services.gateway.why.lost import lost_of
from services.gateway.workloads.command_views import NodeCommanded
from shared.events.nodes import CordonNode, FenceNode, RestoreDevice, UncordonNode
from shared.events.topics import NODE_COMMANDS
from shared.runtime.handler import Change, Emit

NodeCommand = CordonNode | UncordonNode | FenceNode | RestoreDevice


async def command(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """One command to one node."""
    verb, name = call.route.name.removeprefix("node_"), call.part("name")
    rows = await gateway.reader.fetch(
        "SELECT cell FROM gateway.node WHERE name = $1 AND NOT removed", name
    )
    if not rows:
        raise await missing_node(gateway, name)
    if verb == "restore":
        await _require_out(gateway, name, call.body.gpu)
    generation = await _lost_generation(gateway, name) if verb == "fence" else 0
    payload = _payload(call, verb, name, rows[0]["cell"], generation)
    await gateway.commit(_order(gateway, verb, payload))
    return answer(NodeCommanded(name=name, command=verb), 202)


async def _lost_generation(gateway: GatewayContext, name: str) -> int:
    """Of the report by which the node is lost; 409 where it is not."""
    lost = await lost_of(gateway, [name])
    if not lost:
        detail = (
            f"node {name} is not lost: its kubelet stops pods itself (muster admin drain {name})."
            f" If its machine is off, fence it when `muster nodes {name}` says that it is not"
            " ready, which is 120 s after its kubelet was last heard unless it is set otherwise"
        )
        raise Problem(409, "node-not-lost", detail)
    return lost[0].generation


async def _require_out(gateway: GatewayContext, name: str, gpu: int) -> None:
    """409 for a GPU of which nothing is told."""
    rows = await gateway.reader.fetch(
        "SELECT state FROM gateway.device_health WHERE node = $1 AND gpu = $2"
        " AND state <> 'healthy'",
        name,
        gpu,
    )
    if not rows:
        detail = f"gpu: {gpu} of node {name} is healthy; `muster nodes {name}` shows which are not"
        raise Problem(409, "gpu-healthy", detail)


def _payload(
    call: RequestContext, verb: str, name: str, cell: int, generation: int
) -> NodeCommand:
    actor, by, note = call.subject.name, call.subject.described, getattr(call.body, "note", "")
    if verb == "uncordon":
        return UncordonNode(node=name, actor=actor, by=by, cell=cell)
    if verb == "fence":
        return FenceNode(
            node=name, generation=generation, note=note, actor=actor, by=by, cell=cell
        )
    if verb == "restore":
        return RestoreDevice(
            node=name, gpu=call.body.gpu, note=note, actor=actor, by=by, cell=cell
        )
    return CordonNode(node=name, drain=verb == "drain", note=note, actor=actor, by=by, cell=cell)


def _order(gateway: GatewayContext, verb: str, payload: NodeCommand) -> Order:
    name = payload.node
    cause = cause_of(payload, name, verb + gateway.random_bytes(10).hex(), gateway.clock.now_ms())
    emit = Emit(
        payload=payload, topic=NODE_COMMANDS, subject=name, cause=cause, partition=payload.cell
    )
    change = Change(
        subject=f"node/{name}",
        version=0,
        before="",
        after=verb,
        cause=cause,
        actor=payload.actor,
        kind="node",
    )
    return Order(emits=[emit], changes=[change])
