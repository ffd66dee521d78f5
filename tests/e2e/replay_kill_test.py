"""`make replay-kill-test N=36 SEED=1`: recorded clusters, preemption, drains, quotas, and kill -9.

Philly and Kalos are replayed in scaled time (tests/support/recorded_work) on a simulated fleet
that is too small for them, so that queues borrow, reclaim and preempt. Meanwhile quotas change,
queues and nodes are drained, spot nodes are taken away and machines fail (disturbances), and
every process is killed in turns (killing). In the end everything must have succeeded once, hold
nothing, and `muster-ops check` must find nothing. A run in which one of these did not happen is
INVALID. Exit code 0 green, 1 red, 2 invalid.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from deploy.local.system import LocalSystem
from muster.client import AsyncClient
from operations.replay.fleet import Fleet
from operations.replay.recorded import RecordedTrace
from operations.replay.scaled import send_all
from operations.replay.system import apply_documents
from shared.core.model.nouns import WorkloadSpec
from shared.events.envelope import workload_id
from tests.support.device_faults import DeviceFaults
from tests.support.disturbances import Disturbances
from tests.support.killing import (
    OTHERS,
    RECOVERY_SECONDS_MAX,
    SERVERS,
    SERVICES,
    checked,
    doubled,
    recovery_seconds,
    settle,
)
from tests.support.recorded_work import Scene, fleet_file, item_of, scene_documents, scene_work
from tests.support.replay_story import story_of
from tests.support.system import Stage, launch

TARGETS: Final = (*SERVICES, *SERVERS, *OTHERS)
PAUSE_SECONDS: Final = (0.5, 2.0)
SETTLE_SECONDS: Final = 180.0
"""And as long again as work arrived: what was evicted begins anew."""
TWO_AT_ONCE: Final = 0.25
"""Probability that a second process dies with the first."""
SECONDS_PER_ROUND: Final = 3.0
"""About so long a round takes: arrivals are spread over all of them."""
TRIES_MAX: Final = 60
"""The client's: one process after the other is killed under it."""


async def run(options: argparse.Namespace) -> int:
    """Everything on one system in a temporary folder; prints a line a round and a verdict."""
    scene = _scene(options)
    with tempfile.TemporaryDirectory(prefix="muster-replay-", dir="/var/tmp") as name:
        system = await asyncio.to_thread(_launched, Path(name), scene, options.failpoints)
        stage = Stage(system)
        try:
            await stage.connect()
            return await _played(stage, scene, options)
        finally:
            if options.keep_logs:
                shutil.copytree(system.folder / "logs", options.keep_logs, dirs_exist_ok=True)
            await stage.disconnect()
            await asyncio.to_thread(system.discard)


def _scene(options: argparse.Namespace) -> Scene:
    seconds = options.seconds or max(30.0, options.rounds * SECONDS_PER_ROUND)
    return Scene(
        seconds=seconds,
        nodes=options.nodes,
        philly=options.workloads or round(seconds * 15),
        load=options.load,
        seed=options.seed,
    )


def _launched(folder: Path, scene: Scene, failpoints: str) -> LocalSystem:
    file = folder / "fleet.json"
    file.write_text(json.dumps(fleet_file(scene)))
    overrides = {
        "fleet": {"MUSTER_FLEET_FILE": str(file)},
        "simulated-cluster": {"MUSTER_CLUSTER_START_DELAY_SECONDS": "0.2"},
        "placement": {"MUSTER_HEALTH_BREAKER_PERCENT": "100"},
        "*": {"MUSTER_FAILPOINTS": failpoints, "MUSTER_SEED": str(scene.seed)},
    }
    return launch(folder / "system", overrides=overrides, leave_out=())


async def _played(stage: Stage, scene: Scene, options: argparse.Namespace) -> int:
    trace, specs = scene_work(scene)
    access = json.loads((stage.system.folder / "client.json").read_text())
    async with AsyncClient(access["address"], access["key"], tries_max=TRIES_MAX) as client:
        await stage.until("SELECT count(*) FROM placement.node", scene.nodes, 60)
        fleet = Fleet.of(await client.listing("nodes"))
        documents = list(scene_documents(trace, fleet))
        await apply_documents(client, documents)
        queues = {name: body for kind, name, body in documents if kind == "queues"}
        nodes: dict[str, list[str]] = {}
        for one in await client.listing("nodes"):
            nodes.setdefault(one["flavor"], []).append(one["name"])
        disturbances = Disturbances(stage, client, queues, nodes=nodes, seed=scene.seed)
        devices = DeviceFaults(
            disturbances,
            nodes["h100"],
            count=options.device_faults,
            seed=scene.seed,
        )
        kills = await _under_fire(stage, client, (trace, specs), (disturbances, devices), options)
    accepted = [workload_id(one.team, one.name) for one in trace.workloads]
    started = time.monotonic()
    left = await settle(stage, accepted, SETTLE_SECONDS + scene.seconds)
    print(f"settled after {time.monotonic() - started:.1f} s", flush=True)
    result = {"workloads": len(accepted), "seed": scene.seed, "not_over": left}
    result["device_faults"] = dict(devices.done)
    return await _verdict(stage, result, accepted, (kills, disturbances))


async def _under_fire(
    stage: Stage,
    client: AsyncClient,
    work: tuple[RecordedTrace, dict[str, WorkloadSpec]],
    acts: tuple[Disturbances, DeviceFaults],
    options: argparse.Namespace,
) -> dict[str, list[float]]:
    """Submit, disturb and kill at once, until all is submitted; recoveries by process."""
    trace, specs = work
    disturbances, devices = acts
    over, kills = asyncio.Event(), dict[str, list[float]]()
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(
            send_all(client, trace.workloads, 1.0, lambda one: item_of(one, specs))
        )
        disturbing = group.create_task(disturbances.run(over))
        failing = group.create_task(devices.run())
        await _kill(stage, options, kills)
        await sending
        await failing
        over.set()
        await disturbing
    return kills


async def _kill(stage: Stage, options: argparse.Namespace, kills: dict[str, list[float]]) -> None:
    """Every process once, in a drawn order, then again; now and then two in the same moment."""
    generator = random.Random(options.seed)
    deck: list[str] = []
    for number in range(1, options.rounds + 1):
        await asyncio.sleep(generator.uniform(*PAUSE_SECONDS))
        deck = deck or generator.sample(TARGETS, len(TARGETS))
        targets = [deck.pop()]
        if deck and generator.random() < TWO_AT_ONCE:
            targets.append(generator.choice(deck))
        found = await asyncio.gather(*(recovery_seconds(stage, one) for one in targets))
        for target, seconds in zip(targets, found, strict=True):
            kills.setdefault(target, []).append(round(seconds, 2))
            print(f"round {number:3d} kill {target:18s} {seconds:6.2f} s", flush=True)


async def _verdict(
    stage: Stage,
    result: dict[str, Any],
    accepted: Sequence[str],
    acts: tuple[dict[str, list[float]], Disturbances],
) -> int:
    kills, disturbances = acts
    story = await story_of(stage, accepted)
    result |= {
        "faults": story.faults,
        "doubled": await doubled(stage),
        "check": await asyncio.to_thread(checked, stage),
        "evictions": story.evictions,
        "resizes": story.resizes,
        "reservations_refunded": story.refunds,
        "disturbances": dict(disturbances.done),
        "in_vain": dict(disturbances.in_vain),
        "kills": {name: len(each) for name, each in kills.items()},
        "slowest_recovery_seconds": max(
            ((max(each), name) for name, each in kills.items()), default=(0.0, "")
        ),
    }
    print(json.dumps(result))
    stuck = any(one >= RECOVERY_SECONDS_MAX for each in kills.values() for one in each)
    red = result["not_over"] or result["faults"] or result["doubled"] or stuck
    if red or result["check"] != "clean":
        print("RED")
        return 1
    never = [*story.never, *disturbances.missing]
    never += [one for one in TARGETS if kills and one not in kills]
    if never:
        print(f"INVALID: never happened: {', '.join(never)}")
        return 2
    print("GREEN")
    return 0


def main() -> None:
    """Parse options, run, exit with the verdict."""
    for noisy in ("aiokafka", "asyncpg.pool"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog="example: python -m tests.e2e.replay_kill_test --rounds 12 --seed 1",
    )
    parser.add_argument("--rounds", type=int, default=12, help="kills; 12 is each process once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="of arrivals; else by the rounds")
    parser.add_argument("--workloads", type=int, help="of Philly; else 15 a second")
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--load", type=float, default=1.2, help="GPUs asked for, of those there")
    parser.add_argument("--device-faults", type=int, default=0, help="of GPUs, beside all else")
    parser.add_argument("--failpoints", default="", help="as MUSTER_FAILPOINTS, in all services")
    parser.add_argument("--keep-logs", help="copy the logs of the services into this folder")
    sys.exit(asyncio.run(run(parser.parse_args())))


if __name__ == "__main__":
    main()
