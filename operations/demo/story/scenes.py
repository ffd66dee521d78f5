"""The scenes in order, and the commands that work on what they leave behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from operations.demo.story.device_scenes import check, drain, kill_placement, slices_and_shares
from operations.demo.story.quota_scenes import borrow, fill, one_block, reclaim
from operations.demo.story.stage import Stage, identifier, name_of
from operations.demo.story.work import BORROW, OWNER

SCENES: Final[tuple[Callable[[Stage], Awaitable[None]], ...]] = (
    fill,
    borrow,
    reclaim,
    one_block,
    slices_and_shares,
    drain,
    kill_placement,
    check,
)


async def next_commands(stage: Stage) -> list[str]:
    """Five commands with names that stand for something now."""
    gang = next(one for one in stage.items if one.recipe == OWNER[0].name)
    borrowers = [one for one in stage.items if one.recipe == BORROW[0].name]
    states = {one["id"]: one["state"] async for one in stage.operator.workloads(team="vision")}
    waiting = [one for one in borrowers if states.get(identifier(one)) == "queued"]
    return [
        "source .venv/bin/activate",
        f"muster why {name_of((waiting or borrowers)[0])}",
        f"muster status {name_of(gang)}",
        "muster quota",
        f"muster events {name_of(gang)}",
        "muster preemptions",
    ]
