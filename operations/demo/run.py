"""The demo: organisation, load through both doors, live progress, report, what to try next."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from muster.client import AsyncClient
from muster.errors import NotAuthorised, Rejected
from operations import configuration
from operations.demo.display import Display
from operations.demo.load import Item, load
from operations.demo.organisation import SHARES_PERCENT, documents_of
from operations.replay.fleet import Fleet
from operations.replay.report import lines_of, report_of
from operations.replay.runner import FOLLOWED
from operations.replay.submitting import Submission, by_http, by_kafka
from operations.replay.system import apply_documents, wait_until_read
from operations.replay.tracker import Tracker
from operations.topic_tail import TopicTail
from shared.core.units import GPU_MILLI
from shared.events.envelope import workload_id
from shared.events.grants import OPERATOR

KEYS_FILE: Final = "demo-keys.json"
FLEET_SECONDS_MAX: Final = 60.0
SHOW_SECONDS_MAX: Final = 25.0
"""After that the report is given, whatever still runs; the system stays up."""
RUN_BYTES: Final = 2


async def demo() -> int:
    """Run it on the local system; 0 when nothing was lost or doubled."""
    addresses = configuration.find(role=OPERATOR)
    home, state = _home()
    run = f"d{secrets.token_hex(RUN_BYTES)}"
    async with AsyncClient(state["gateway"], _admin_key(state)) as operator:
        print("Waiting for the fleet to report itself ...", flush=True)
        fleet = await _fleet(operator)
        print(f"{fleet.total_gpu_milli // 1000:,} GPUs. Applying teams, queues and quotas ...")
        await apply_documents(operator, documents_of(fleet))
        keys = await _keys(operator, home)
        await wait_until_read(addresses.kafka, addresses.prefix, addresses.database)
        items = load(run)
        tracker = Tracker(workload_id(item.team, item.submission.key) for item in items)
        topics = [topic.name for topic in FOLLOWED]
        print(f"Submitting {len(items):,} workloads through Kafka and HTTP ...", flush=True)
        async with TopicTail(addresses.kafka, addresses.prefix, topics) as tail:
            work = _Load(
                addresses=addresses,
                gateway=operator.address,
                keys=keys,
                items=items,
                tracker=tracker,
            )
            refused, peak = await _show(work, tail, fleet.total_gpu_milli)
    report = report_of(tracker, fleet.total_gpu_milli)
    del report["allocated_percent"], report["workloads_per_second"]  # of the end, and of waits
    report["gpus_used_at_most"] = peak // GPU_MILLI
    _print(report, refused)
    _invite(state, tracker, items)
    return 1 if report["lost"] or report["duplicated"] else 0


def _home() -> tuple[Path, dict[str, Any]]:
    state = configuration.local_state(os.environ, Path.cwd())
    if not state.get("gateway"):
        raise configuration.NotConfigured("Nothing is up; start it with `make up`.")
    return Path(state["admin_key_file"]).parent, state


def _admin_key(state: dict[str, Any]) -> str:
    return Path(state["admin_key_file"]).read_text().strip()


async def _fleet(client: AsyncClient) -> Fleet:
    """The nodes once their number stays the same."""
    deadline, before = time.monotonic() + FLEET_SECONDS_MAX, -1
    while True:
        nodes = await client.listing("nodes", limit="1000")
        if nodes and len(nodes) == before:
            return Fleet.of(nodes)
        if time.monotonic() > deadline:
            raise TimeoutError("the fleet does not report itself; see `make logs s=fleet`")
        before = len(nodes)
        await asyncio.sleep(0.5)


async def _keys(operator: AsyncClient, home: Path) -> dict[str, str]:
    """A member's key for each team; made once and kept."""
    path = home / KEYS_FILE
    keys: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    for team in SHARES_PERCENT:
        if team not in keys or not await _works(operator.address, keys[team]):
            keys[team] = (await operator.create_key(team, "member", "demo"))["key"]
    _write_secret(path, keys)
    return keys


async def _works(address: str, key: str) -> bool:
    async with AsyncClient(address, key or "none") as client:
        try:
            await client.listing("queues")
        except NotAuthorised:
            return False
        return True


def _write_secret(path: Path, value: Any) -> None:  # noqa: ANN401  # any JSON
    path.touch(mode=0o600)
    path.write_text(json.dumps(value, indent=2) + "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """What is to be sent, by whom, and who follows it."""

    addresses: configuration.Addresses
    gateway: str
    keys: dict[str, str]
    items: Sequence[Item]
    tracker: Tracker


async def _show(work: _Load, tail: TopicTail, total_gpu_milli: int) -> tuple[list[str], int]:
    """Send and follow everything: what HTTP refused at the door, and most milli-GPU in use."""
    started = time.monotonic()
    with Display(work.tracker, total_gpu_milli) as display:
        async with asyncio.TaskGroup() as group:
            sender = group.create_task(_submit(work))
            async for batch in tail.batches():
                for received, at_ms in batch:
                    work.tracker.take(received, at_ms)
                display.show()
                elapsed = time.monotonic() - started
                if sender.done() and (elapsed > SHOW_SECONDS_MAX or _all_ended(work.tracker)):
                    break
    return sender.result(), display.peak_gpu_milli


def _all_ended(tracker: Tracker) -> bool:
    return all(fate.ended or fate.rejected for fate in tracker.fates.values())


async def _submit(work: _Load) -> list[str]:
    """Every second workload of a team by Kafka, the others by HTTP."""
    refused: list[str] = []
    addresses, tracker = work.addresses, work.tracker
    async with asyncio.TaskGroup() as group:
        for team, key in work.keys.items():
            own = [item for item in work.items if item.team == team]
            kafka = _stream([item.submission for item in own[::2]])
            group.create_task(
                by_kafka(addresses.kafka, addresses.prefix, team, kafka, tracker.submitted)
            )
            group.create_task(_by_http(work.gateway, key, own[1::2], tracker, refused))
    return refused


async def _by_http(
    address: str, key: str, items: Sequence[Item], tracker: Tracker, refused: list[str]
) -> None:
    """The right ones in batches, the wrong ones alone: a batch is taken whole or not at all."""
    async with AsyncClient(address, key) as client:
        await by_http(client, _stream([item.submission for item in items if not item.wrong]))
        for item in items:
            if not item.wrong:
                continue
            try:
                await client.submit(
                    msgspec.to_builtins(item.submission.spec), idempotency_key=item.submission.key
                )
            except Rejected as error:
                identifier = workload_id(item.team, item.submission.key)
                tracker.fates[identifier].rejected = True
                refused.append(f"{item.recipe}: {_first_rule(error)}")


def _first_rule(error: Rejected) -> str:
    first = error.errors[0] if error.errors else None
    return f"{first.field}: {first.rule}" if first else str(error)


async def _stream(submissions: Sequence[Submission]) -> AsyncIterator[Submission]:
    for one in submissions:
        yield one


def _print(report: dict[str, Any], refused: Sequence[str]) -> None:
    print("\nReport")
    for line in lines_of(report):
        print(f"  {line}")
    if refused:
        print("\nRefused at the door, for example")
        for text, count in Counter(refused).most_common(3):
            print(f"  {count:>3} x {text}")


def _invite(state: dict[str, Any], tracker: Tracker, items: Sequence[Item]) -> None:
    print("\nThe system stays up (make down stops it):")
    print(f"  API         {state['gateway']}   (openapi: {state['gateway']}/openapi.json)")
    print(f"  Kafka       {state['kafka']}")
    print(f"  PostgreSQL  {state['database']}")
    print("\nTry next:")
    for command in _next_commands(tracker, items):
        print(f"  {command}")


def _next_commands(tracker: Tracker, items: Sequence[Item]) -> list[str]:
    waiting = [
        item.submission.spec.name
        for item in items
        if (fate := tracker.fates[workload_id(item.team, item.submission.key)]).reason
        and not fate.placed
        and not fate.ended
    ]
    rejected = [item.submission.spec.name for item in items if item.recipe == "wrong-gang"]
    chosen = (waiting or rejected)[0]
    return [
        "source .venv/bin/activate",
        "muster queue -w",
        f"muster why {chosen}",
        "muster quota",
        "muster nodes -o wide | head",
        "muster-ops check",
    ]
