"""`make fault-test N=30 SEED=1`: every kind of fault, in an order of the seed, under load.

Processes stand still, one or all of them, are terminated or killed; broker and database are away
or have no room; a clock is set; a standby takes over; Kafka's data is deleted and the database
put back to its base backup, both healed by the steps of docs/operate.md. After each fault it is
measured when all that decide do so again. At the end the load is left to finish, and three judges
speak: the client's ledger of accepted submissions, `muster-ops check`, and the load itself.

Exit code 0 green; 1 red: lost, doubled, or the check is not clean; 2 too little load to say;
3 slow: all is whole, and something took longer than it may.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tests.support.faults.acts import PROCESS_ACTS, Broken, hand_back
from tests.support.faults.load import RestingLoad
from tests.support.faults.stores import NODES, STORE_ACTS
from tests.support.faults.system import READY_SECONDS, BreakableSystem
from tests.support.system import Stage
from tests.support.verdict import Findings, LeastLoad, Verdict, judged
from tests.support.work import fleet

ACTS: Final = {**PROCESS_ACTS, **STORE_ACTS}
PAUSE_SECONDS: Final = (1.0, 4.0)
SETTLE_SECONDS: Final = 60.0
PLACEMENTS_PER_ROUND_MIN: Final = 10
EVENTS_PER_SECOND_MIN: Final = 10.0
"""Over all, though half the time something is not there."""


def drawn(kinds: Sequence[str], rounds: int, seed: int) -> list[str]:
    """Every kind once, in a drawn order, then again."""
    generator = random.Random(seed)
    decks = (generator.sample(kinds, len(kinds)) for _ in range(-(-rounds // len(kinds))))
    return [kind for deck in decks for kind in deck][:rounds]


async def run(options: argparse.Namespace) -> Verdict:
    """All rounds on one system in a temporary folder; prints a line each and a verdict."""
    root = Path(tempfile.mkdtemp(prefix="muster-fault-", dir="/var/tmp"))
    root.chmod(0o755)  # the database has a user of its own
    system = BreakableSystem(root / "system")
    stage = Stage(system)
    try:
        await asyncio.to_thread(system.start)
        await asyncio.to_thread(system.wait_ready, READY_SECONDS)
        await stage.connect()
        try:
            return await _rounds(system, stage, options)
        finally:
            await stage.disconnect()
    finally:
        if options.keep_logs:
            shutil.copytree(system.folder / "logs", options.keep_logs, dirs_exist_ok=True)
        await asyncio.to_thread(system.discard)
        shutil.rmtree(root)


async def _rounds(system: BreakableSystem, stage: Stage, options: argparse.Namespace) -> Verdict:
    await stage.organise()
    await stage.nodes(list(fleet(NODES)))
    generator = random.Random(options.seed)
    load = RestingLoad(stage)
    broken = Broken(system=system, stage=stage, generator=generator, load=load)
    for kind, why in system.left_out.items():
        print(f"left out  {kind}: {why}", flush=True)
    kinds = [options.only] if options.only else [one for one in ACTS if one not in system.left_out]
    started, slow = time.monotonic(), list[str]()
    for number, kind in enumerate(drawn(kinds, options.rounds, options.seed), 1):
        await asyncio.sleep(generator.uniform(*PAUSE_SECONDS))
        took = await ACTS[kind](broken)
        await hand_back(broken)
        print(f"round {number:3d} {kind:16s} {', '.join(map(str, took))}", flush=True)
        slow += [f"{kind}: {one}" for one in took if one.slow]
    await load.rest()
    found = await judged(stage, load.accepted, time.monotonic() - started, SETTLE_SECONDS)
    found.slow = [*slow, *found.slow]
    return _told(found, options, load)


def _told(found: Findings, options: argparse.Namespace, load: RestingLoad) -> Verdict:
    verdict = found.verdict(
        LeastLoad(
            events_per_second=EVENTS_PER_SECOND_MIN,
            placements=options.rounds * PLACEMENTS_PER_ROUND_MIN,
        )
    )
    seeds = {"rounds": options.rounds, "seed": options.seed, "accepted": len(load.accepted)}
    print(json.dumps(seeds | asdict(found)))
    print(verdict.name.replace("_", " "))
    return verdict


def main() -> None:
    """Parse options, run, exit with the verdict."""
    for name in ("aiokafka", "asyncpg"):  # what is away is told by the rounds
        logging.getLogger(name).setLevel(logging.CRITICAL)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the system is taken down, too
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=len(ACTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=ACTS, help="this fault every time")
    parser.add_argument("--keep-logs", help="copy the logs of the services into this folder")
    sys.exit(asyncio.run(run(parser.parse_args())))


if __name__ == "__main__":
    main()
