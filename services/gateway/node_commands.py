"""Cordon, drain and uncordon a node: accepted when it is durable, carried out by placement."""

from __future__ import annotations

from aiohttp import web

from services.gateway.command_views import NodeCommanded
from services.gateway.committer import Order
from services.gateway.door import Call, Door, answer
from services.gateway.existing import missing_node
from services.gateway.submission_rows import cause_of
from shared.events.nodes import CordonNode, UncordonNode
from shared.events.topics import NODE_COMMANDS
from shared.runtime.handler import Change, Emit


async def command(door: Door, call: Call) -> web.Response:
    """One command to one node."""
    verb, name = call.route.name.removeprefix("node_"), call.part("name")
    rows = await door.reader.fetch(
        "SELECT cell FROM gateway.node WHERE name = $1 AND NOT removed", name
    )
    if not rows:
        raise await missing_node(door, name)
    await door.commit(_order(door, call, (verb, name), rows[0]["cell"]))
    return answer(NodeCommanded(name=name, command=verb), 202)


def _order(door: Door, call: Call, what: tuple[str, str], cell: int) -> Order:
    verb, name = what
    actor, note = call.subject.name, getattr(call.body, "note", "")
    by = call.subject.described
    payload: CordonNode | UncordonNode = UncordonNode(node=name, actor=actor, by=by, cell=cell)
    if verb != "uncordon":
        drain = verb == "drain"
        payload = CordonNode(node=name, drain=drain, note=note, actor=actor, by=by, cell=cell)
    cause = cause_of(payload, name, verb + door.random_bytes(10).hex(), door.clock.now_ms())
    emit = Emit(payload=payload, topic=NODE_COMMANDS, subject=name, cause=cause, partition=cell)
    change = Change(
        subject=f"node/{name}",
        version=0,
        before="",
        after=verb,
        cause=cause,
        actor=actor,
        kind="node",
    )
    return Order(emits=[emit], changes=[change])
