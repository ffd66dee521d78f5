"""Scenes of quota: the fleet fills, a team borrows, the owner asks and gets its GPUs back."""

from __future__ import annotations

from typing import Any

from muster.errors import NotFound
from operations.demo.load import Item
from operations.demo.organisation import MIN_RUNTIME_SECONDS
from operations.demo.story.stage import Stage, identifier, name_of
from operations.demo.story.work import BORROW, FILL, OWNER
from operations.replay.report import percentile
from shared.core.model.units import GPU_MILLI

Json = dict[str, Any]
FLAVOR = "h100"


async def fill(stage: Stage) -> None:
    """Work of every kind by three teams; all of it runs."""
    stage.narrator.caption(
        "The fleet fills",
        "Four teams submit gangs of up to 128 GPUs, single GPUs, replicated services, MIG slices "
        "and shares of one GPU, one half through Kafka and the other through HTTP.",
    )
    items = await stage.submit(FILL)
    seconds = await stage.until_running(items)
    fates = stage.fates(items)
    waits = sorted(fate.placed_at_ms - fate.submitted_at_ms for fate in fates)
    gpus = sum(fate.gpu_milli for fate in fates) // GPU_MILLI
    stage.narrator.say(
        f"{len(items):,} workloads on {gpus:,} GPUs run after {seconds:.1f} s; from submission to "
        f"a place p50 {percentile(waits, 50):,} ms, p99 {percentile(waits, 99):,} ms."
    )


async def borrow(stage: Stage) -> None:
    """One team takes every whole H100, most of them borrowed."""
    stage.narrator.caption(
        "Idle quota is borrowed",
        "Nobody uses the H100 nodes. Team vision owns a quarter of them and asks for all.",
    )
    items = await stage.submit(BORROW)
    await stage.until_running(items)
    asked = sum(fate.gpu_milli for fate in stage.fates(items))

    async def counted() -> bool:
        used: int = (await _quota(stage, "vision"))["used"]["gpu_milli"]
        return used >= asked

    await stage.until("the read model counts all of them", counted, lambda: "use is counted")
    stage.narrator.quote("muster quota vision", _quota_sentence(await _quota(stage, "vision")))


async def reclaim(stage: Stage) -> None:
    """The owner asks; both sides are told the same, with numbers; then it gets a whole block."""
    stage.narrator.caption(
        "The owner asks for its own",
        "Team language owns 45 % of the H100 nodes and submits one gang of 128 GPUs that must "
        "lie in one block. Borrowed GPUs are taken back once their work has run for "
        f"{MIN_RUNTIME_SECONDS} s.",
    )
    (item,) = await stage.submit(OWNER)
    await _told(stage, item)
    await _quote_why(stage, item)
    seconds = await stage.until_running([item])
    stage.narrator.say(f"The gang runs after {seconds:.1f} s. What an evicted workload is told:")
    await _quote_victim(stage, item)


async def one_block(stage: Stage) -> None:
    """Where the gang lies: as many nodes as it needs, all of one block."""
    stage.narrator.caption(
        "128 GPUs inside one block", "The gang was placed in one decision: all of it, or nothing."
    )
    item = next(one for one in stage.items if one.recipe == OWNER[0].name)
    workload = await stage.read_running(item)
    names = sorted({pod["node"] for pod in workload["placement"]["pods"]})
    nodes = [await stage.operator.node(name) for name in names]
    blocks = sorted({node["block"] for node in nodes})
    racks = sorted({node["rack"].rpartition("/")[2] for node in nodes})
    stage.require(len(blocks) == 1, f"one block, not {', '.join(blocks)}")
    stage.narrator.quote(
        f"muster status {name_of(item)}",
        f"{len(names)} nodes of 8 GPUs, {names[0]} to {names[-1]}, all in {blocks[0]} "
        f"({len(racks)} racks: {', '.join(racks)}).",
    )


async def _told(stage: Stage, item: Item) -> None:
    fate = stage.tracker.fates[identifier(item)]

    async def told() -> bool:
        return bool(fate.reason) or fate.placed

    await stage.until("the gang waits with a reason", told, lambda: "the gang waits")


async def _quote_why(stage: Stage, item: Item) -> None:
    """The owner's side, once preemption has said what it waits for as well."""
    client = stage.teams[item.team]

    async def answered() -> bool:
        try:
            why = await client.why(identifier(item))
        except NotFound:
            return False
        return bool(why.get("no_eviction")) or why["state"] not in ("received", "queued")

    await stage.until("a reason with its cause", answered, lambda: "the reason is looked up")
    why = await client.why(identifier(item))
    turn = f"\nTurn: {why['owed']}" if why.get("owed") else ""
    stage.narrator.quote(f"muster why {name_of(item)}", _sentence(why) + turn)


async def _quote_victim(stage: Stage, item: Item) -> None:
    found: list[Json] = []

    async def recorded() -> bool:
        newest = await stage.operator.preemptions()
        found[:] = [one for one in newest if one["workload_id"] == identifier(item)]
        return bool(found)

    await stage.until("the preemption is recorded", recorded, lambda: "the record is read")
    victim = found[0]["victims"][0]["workload_id"]
    why = await stage.teams["vision"].why(victim)
    workload = await stage.operator.get(victim)
    lines = [_sentence(why)]
    if (evicted := why.get("preempted_by")) is not None:
        lines.append(
            f"Evicted by rule {evicted['rule']} for a workload of team {evicted['team']}; "
            "it keeps its place in the queue and uses up no retry."
        )
    stage.narrator.quote(f"muster why {workload['name']}", "\n".join(lines))


def _sentence(why: Json) -> str:
    next_step = f"\nNext: {why['next_step']}" if why["next_step"] else ""
    return f"{why['reason'] or why['state']}: {why['message']}{next_step}"


async def _quota(stage: Stage, queue: str) -> Json:
    body = next(one for one in await stage.operator.listing("queues") if one["name"] == queue)
    row: Json = next(one for one in body["flavors"] if one["flavor"] == FLAVOR)
    return row


def _quota_sentence(row: Json) -> str:
    used, owned = row["used"]["gpu_milli"], row["nominal"]["gpu_milli"]
    return (
        f"Queue vision uses {used // GPU_MILLI:,} {FLAVOR} GPUs: it owns {owned // GPU_MILLI:,} "
        f"and borrows {(used - owned) // GPU_MILLI:,}."
    )
