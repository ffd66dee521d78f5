"""Replays a recorded trace in scaled time, over HTTP alone, as users would: for many teams.

The organisation is cut to the fleet that is there: each team owns of every flavor the part that
its virtual cluster had of all nodes, and may borrow the rest through its cohorts. The idempotency
keys are those of the trace, so a second run gives the same workloads and changes nothing.
"""

from __future__ import annotations

import asyncio
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from muster.client import ENDED, AsyncClient
from operations.replay.fleet import Fleet
from operations.replay.recorded import Recorded, RecordedTrace, spec_of
from operations.replay.system import Document, NotReady, apply_documents
from operations.replay.waits import report_of

BATCH: Final = 250
BATCHES_IN_FLIGHT: Final = 4
TICK_SECONDS: Final = 0.05
PROGRESS_SECONDS: Final = 2.0
IN_FORCE_SECONDS_MAX: Final = 60.0
READ_SECONDS: Final = 1.0
"""Admission is given this time to read what quota has in force already."""
LABEL: Final = "replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How to replay: so many times faster, under the keys of `run`, and how long to stay."""

    speed: float
    run: str
    stay_seconds: float


async def replay_scaled(
    client: AsyncClient, trace: RecordedTrace, part: Sequence[Recorded], scale: Scale
) -> dict[str, Any]:
    """The report; `client` is an operator's."""
    fleet = Fleet.of(await client.listing("nodes"))
    if not fleet.flavors:
        raise NotReady("no node has reported itself: is the system up?")
    teams, cohorts = len(trace.nodes), len(trace.cohorts)
    _tell(f"{trace.name}: applying {teams} teams and queues in {cohorts} cohorts")
    await apply_documents(client, documents_of(trace, fleet))
    await _in_force(client, trace)
    label = f"{trace.name}-{scale.run}"
    _tell(f"{trace.name}: {_length(part, scale.speed)}")
    started = time.monotonic()
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(
            send_all(client, part, scale.speed, lambda one: _item(one, scale, label))
        )
        while not sending.done():
            await asyncio.wait((sending,), timeout=PROGRESS_SECONDS)
            seconds = time.monotonic() - started
            await _progress(client, trace, _submitted(part, seconds, scale.speed), seconds)
    await _stay(client, trace, scale.stay_seconds)
    workloads = [one async for one in client.workloads(label=f"{LABEL}={label}")]
    return report_of(workloads, fleet.total_gpu_milli)


def documents_of(trace: RecordedTrace, fleet: Fleet) -> list[Document]:
    """Flavors, cohorts, teams and queues, in the order in which they need each other."""
    documents: list[Document] = [
        ("flavors", name, {"products": fleet.products[name]}) for name in fleet.flavors
    ]
    total = sum(trace.nodes.values())
    parent_of = {team: name for name, (_, teams) in trace.cohorts.items() for team in teams}
    for name, (parent, _) in trace.cohorts.items():
        documents.append(("cohorts", name, {"parent": parent}))
    for team, nodes in trace.nodes.items():
        documents.append(("teams", team, {"default_queue": team, "kafka": False}))
        body: dict[str, Any] = {"team": team, "cohort": parent_of[team], "weight": nodes}
        body["flavors"] = [_quota(fleet, flavor, nodes, total) for flavor in fleet.flavors]
        documents.append(("queues", team, body))
    return documents


def _quota(fleet: Fleet, flavor: str, nodes: int, total: int) -> dict[str, Any]:
    amounts: Mapping[str, Mapping[str, int]] = {
        "gpu_milli": fleet.gpu_milli,
        "cpu_milli": fleet.cpu_milli,
        "memory_mib": fleet.memory_mib,
    }
    nominal = {unit: each[flavor] * nodes // total for unit, each in amounts.items()}
    return {"flavor": flavor, "nominal": nominal}


async def _in_force(client: AsyncClient, trace: RecordedTrace) -> None:
    """Return when quota decides by the documents of every queue.

    Raises:
        NotReady: it does not in `IN_FORCE_SECONDS_MAX`.
    """
    deadline = time.monotonic() + IN_FORCE_SECONDS_MAX
    while time.monotonic() < deadline:
        queues = [one for one in await client.listing("queues") if one["name"] in trace.nodes]
        if queues and all(one["limits_in_force"] >= one["version"] for one in queues):
            await asyncio.sleep(READ_SECONDS)
            return
        await asyncio.sleep(TICK_SECONDS)
    raise NotReady(f"quotas are not in force after {IN_FORCE_SECONDS_MAX:.0f} s: is quota up?")


async def send_all(
    client: AsyncClient,
    part: Sequence[Recorded],
    speed: float,
    item_of: Callable[[Recorded], dict[str, Any]],
) -> None:
    """Each at its time; what is due together goes in one batch for each team.

    `item_of` makes of one what the batch carries: `{"idempotency_key", "spec"}`.
    """
    slots, started, sent = asyncio.Semaphore(BATCHES_IN_FLIGHT), time.monotonic(), 0
    async with asyncio.TaskGroup() as group:
        while sent < len(part):
            now_ms = (time.monotonic() - started) * 1_000 * speed
            due: dict[str, list[Recorded]] = {}
            while sent < len(part) and part[sent].at_ms <= now_ms:
                due.setdefault(part[sent].team, []).append(part[sent])
                sent += 1
            for team, ones in due.items():
                for first in range(0, len(ones), BATCH):
                    await slots.acquire()
                    items = [item_of(one) for one in ones[first : first + BATCH]]
                    group.create_task(_send(client, team, items, slots))
            await asyncio.sleep(TICK_SECONDS)


def _item(one: Recorded, scale: Scale, label: str) -> dict[str, Any]:
    spec = spec_of(one, scale.speed, {LABEL: label})
    return {"idempotency_key": f"{label}-{one.name}", "spec": msgspec.to_builtins(spec)}


async def _send(
    client: AsyncClient, team: str, items: Sequence[dict[str, Any]], slots: asyncio.Semaphore
) -> None:
    try:
        await client.submit_batch(items, team=team)
    finally:
        slots.release()


async def _stay(client: AsyncClient, trace: RecordedTrace, stay_seconds: float) -> None:
    """Until nothing of the teams lives any more, or the time is up."""
    started = time.monotonic()
    while (seconds := time.monotonic() - started) < stay_seconds:
        if not await _progress(client, trace, "all submitted", seconds):
            return
        await asyncio.sleep(PROGRESS_SECONDS)


def _length(part: Sequence[Recorded], speed: float) -> str:
    """How many are sent, and for how long."""
    minutes, seconds = divmod(round(part[-1].at_ms / 1_000 / speed) if part else 0, 60)
    return f"{len(part)} workloads in {minutes} min {seconds} s, {speed:g} times as fast"


def _submitted(part: Sequence[Recorded], seconds: float, speed: float) -> str:
    """How many are sent by now, and after how long a pause the next is."""
    sent = bisect_right(part, seconds * 1_000 * speed, key=lambda one: one.at_ms)
    if sent == len(part):
        return "all submitted"
    pause = part[sent].at_ms / 1_000 / speed - seconds
    later = f", the next in {pause:.0f} s" if pause > PROGRESS_SECONDS else ""
    return f"{sent} of {len(part)} submitted{later}"


async def _progress(
    client: AsyncClient, trace: RecordedTrace, submitted: str, seconds: float
) -> int:
    """Tell how many live in which state; their number."""
    states: dict[str, int] = {}
    for queue in await client.listing("queues"):
        if queue["name"] in trace.nodes:
            for state, count in queue["workloads"].items():
                states[state] = states.get(state, 0) + count
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    _tell(f"{seconds:5.0f} s: {submitted}; {told or 'nothing lives'}")
    return sum(count for state, count in states.items() if state not in ENDED)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
