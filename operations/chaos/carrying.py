"""Carries the commands out and prints what became of them.

What reaches the outside is imported late, so that help is there at once.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from operations.chaos.faults import ON_NODES, Fault, Strike


def strike(strike: Strike, fleet_url: str, output: str) -> None:
    """Make one fault and say so.

    Raises:
        Failure: it may not be made there, or a door does not answer.
    """
    asyncio.run(_make(strike, fleet_url))
    if output == "json":
        print(json.dumps(_told(strike)))
    else:
        print(f"{strike.fault.value}: told of {strike.place}; see `muster nodes {strike.node}`")


def _told(strike: Strike) -> dict[str, Any]:
    told: dict[str, Any] = {"fault": strike.fault.value, "node": strike.node}
    if strike.fault not in ON_NODES:
        told["gpu"] = strike.gpu
    if strike.fault is Fault.XID:
        told["code"] = strike.code
    if strike.fault is Fault.SILENT:
        told["for_s"] = strike.for_s
    return told


async def _make(strike: Strike, fleet_url: str) -> None:
    from operations.chaos.doors import doors
    from operations.chaos.places import checked

    way = doors(fleet_url)
    place = checked(strike, (await way.places([strike.node])).get(strike.node))
    await way.strike(strike, place)


async def run_scenario(
    path: Path, seed: str, fleet_url: str, output: str, *, dry_run: bool
) -> None:
    """Plan a scenario; show the plan, or carry it out.

    Raises:
        Failure: the document is refused, or a fault cannot be made.
    """
    from operations.chaos.document import read
    from operations.chaos.doors import doors
    from operations.chaos.running import line_of, run
    from operations.chaos.scenario import as_json, names_of, plan_of, steps_of
    from shared.adapters.clock import SystemClock

    steps = read(path, steps_of)
    way = doors(fleet_url)
    plan = plan_of(steps, await way.places(names_of(steps)), seed)
    if not dry_run:
        await run(plan, way.strike, _progress(output), SystemClock())
    if output == "json":
        print(json.dumps({"seed": seed, "done": not dry_run, "steps": as_json(plan)}, indent=2))
    elif dry_run:
        print("\n".join(line_of(one) for one in plan))


async def run_friday(
    path: Path,
    seed: str,
    fleet_url: str,
    output: str,
    *,
    wait: float,
    leave_down: bool,
    dry_run: bool,
) -> bool:
    """Take a node down and report what it cost, or show which; False: work still waits.

    Raises:
        Failure: the document is refused, it is outside its hours, or no node may be taken.
    """
    from operations.chaos.document import read
    from operations.chaos.friday import rules_of
    from operations.chaos.friday_run import as_it_stands, carried_out, planned
    from operations.chaos.site import site
    from operations.chaos.view import lines_of_friday, lines_of_plan
    from shared.adapters.clock import SystemClock

    rules = read(path, rules_of)
    assert rules is not None, "a document without rules was refused"
    where, clock = site(fleet_url), SystemClock()
    seed = seed or rules.day_of(clock.now_ms())
    if dry_run:
        plan = as_it_stands(await planned(where, rules, seed), rules, clock.now_ms())
        print(json.dumps(plan, indent=2) if output == "json" else "\n".join(lines_of_plan(plan)))
        return True
    report = await carried_out(
        where,
        rules,
        seed,
        clock,
        wait_seconds=wait,
        leave_down=leave_down,
        tell=_progress(output),
    )
    print(json.dumps(report, indent=2) if output == "json" else "\n".join(lines_of_friday(report)))
    return not report["waiting"]


def _progress(output: str) -> Callable[[str], None]:
    """Beside a document for programs, people read on standard error."""
    file = sys.stderr if output == "json" else sys.stdout
    return lambda line: print(line, file=file, flush=True)
