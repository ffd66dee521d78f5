"""`make kube-kill-test N=100 SEED=1`: a whole system on a real API server, under faults.

Each round kills the binder or the API server, cuts the binder's watch, loses a fifth of the
answers, or refuses a fifth of the requests with 409, 429 or 500, while gangs without an end are
evicted. Then all other work is left to end, and for a minute there is no API server for the binder
and no broker for anybody, while somebody deletes pods. Judges: no work has live pods of two
attempts and no GPU is given twice, at any time; no gang is bound in part at rest; everything runs
again within 30 s; `muster-ops check --kubeconfig` is clean. Fewer placements than rounds, or a
fault that met nothing, and it is INVALID. Exit code 0 green, 1 red, 2 invalid.
"""

import argparse
import asyncio
import json
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.kube.kill_place import KINDS, SETTLE_SECONDS, Place, placed
from tests.kube.kubelet_reminder import Reminder
from tests.kube.pod_census import partly_bound
from tests.support.killing import checked, doubled, settle

CONVERGED_SECONDS: Final = 30.0


async def run(options: argparse.Namespace) -> int:
    """All rounds, the outage, the verdict."""
    async with placed(options.cluster, options.seed) as place:
        census = place.census()
        reminder = Reminder(place.kube, census)
        beside = [asyncio.create_task(one.run()) for one in (census, reminder)]
        await place.start_lasting()
        kinds = await _break(place, options.rounds, options.only or KINDS)
        left = await settle(place.stage, place.load.accepted, SETTLE_SECONDS)
        await place.all_whole()
        converged = await place.outage(options.outage)
        for one in beside:
            assert one.cancel(), one.exception()
        result = {
            "rounds": options.rounds,
            "seed": options.seed,
            "kinds": sorted(set(kinds)),
            "accepted": len(place.load.accepted),
            "not_over": left,
            "outage_seconds": options.outage,
            "converged_after_seconds": round(converged, 1),
            "longest_partial_seconds": round(census.longest_partial_seconds, 1),
            "readings": census.readings,
            "doubles": sorted(census.doubles),
            "met": place.met(),
            "kubelets_reminded": reminder.reminded,
        }
        return await _verdict(place, result)


async def _break(place: Place, rounds: int, wanted: Sequence[str]) -> list[str]:
    """Faults of every kind in an order of the seed, under load; the kinds in that order."""
    feeding = asyncio.create_task(place.feed())
    kinds = [wanted[number % len(wanted)] for number in range(rounds)]
    place.random.shuffle(kinds)
    for number, kind in enumerate(kinds, 1):
        await asyncio.sleep(place.random.uniform(0.5, 2.0))
        started = time.monotonic()
        await place.round(kind)
        print(f"round {number:3d} {kind:10s} {time.monotonic() - started:5.1f} s", flush=True)
    place.load.stopping = True
    await feeding
    return kinds


async def _verdict(place: Place, result: dict[str, Any]) -> int:
    found = await asyncio.to_thread(place.census().read)
    placements = await place.stage.rows.fetchval(
        "SELECT count(*) FROM placement.audit WHERE after = 'placed'"
    )
    kubeconfig = str(place.kube.kubeconfig("checker"))
    options = ("--kubeconfig", kubeconfig, "--instance", place.instance)
    result |= {
        "partial_at_rest": partly_bound(found),
        "differences": await place.differences(),
        "doubled": await doubled(place.stage),
        "check": await asyncio.to_thread(checked, place.stage, *options),
        "placements": placements,
    }
    print(json.dumps(result))
    unseen = [kind for kind in result["kinds"] if not result["met"][kind]]
    if placements < result["rounds"] or unseen:
        print(f"INVALID: too little load for a verdict, faults without effect: {unseen}")
        return 2
    faults = ("not_over", "doubles", "partial_at_rest", "differences", "doubled")
    green = not any(result[one] for one in faults) and result["check"] == "clean"
    green = green and result["converged_after_seconds"] <= CONVERGED_SECONDS
    print("GREEN" if green else "RED")
    return 0 if green else 1


def main() -> None:
    """Parse options, run, exit with the verdict."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=KINDS, help="these faults alone")
    parser.add_argument("--outage", type=float, default=60.0, help="seconds")
    parser.add_argument("--cluster", type=Path, help="folder of a cluster that runs")
    sys.exit(asyncio.run(run(parser.parse_args())))


if __name__ == "__main__":
    main()
