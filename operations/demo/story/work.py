"""What the story submits: the recipes of the short demo, on stated products and for longer."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from operations.demo.load import (
    EVERY_TEAM,
    Item,
    Make,
    Recipe,
    gang,
    replicas,
    share,
    slices,
    whole,
)
from operations.replay.submitting import Submission
from shared.core.model.nouns import GpuChoice, Level, TopologyRequest, WorkloadKind, WorkloadSpec
from shared.core.model.value import replace

LABEL: Final = {"demo": "story"}
"""On all that the story submits; the next run cancels it by this label."""
STAY_SECONDS: Final = 900
"""Longer than the story, so that what it shows still stands when a person tries next."""
H100: Final = "NVIDIA-H100-80GB-HBM3"
A100: Final = "NVIDIA-A100-SXM4-80GB"
H200: Final = "NVIDIA-H200"
LENDERS: Final = ("language", "fraud", "platform")


def on(product: str, make: Make) -> Make:
    """The same work on one product."""
    return lambda dice: replace(make(dice), gpu_choice=GpuChoice(products=(product,)))


def _one_block(dice: random.Random) -> WorkloadSpec:
    spec = on(H100, whole(16, 8))(dice)
    return replace(spec, topology=TopologyRequest(required=Level.BLOCK))


FILL: Final = (
    Recipe(name="gang-128", count=5, teams=("language",), make=on(A100, gang(16, Level.BLOCK))),
    Recipe(name="gang-64", count=8, teams=("language",), make=on(H200, gang(8, Level.BLOCK))),
    Recipe(name="gang-32", count=8, teams=("platform",), make=on(A100, gang(4, Level.RACK))),
    Recipe(name="train-8", count=88, teams=("fraud", "language"), make=on(A100, whole(1, 8))),
    Recipe(name="fine-8", count=40, teams=("platform", "fraud"), make=on(H200, whole(1, 8))),
    Recipe(name="train-1", count=120, teams=LENDERS, make=on(A100, whole(1, 1))),
    Recipe(name="serve", count=44, teams=("fraud", "platform"), make=on("NVIDIA-L4", replicas)),
    Recipe(
        name="serve-mig",
        count=400,
        teams=EVERY_TEAM,
        make=slices(WorkloadKind.INFERENCE, ("1g.10gb", "2g.20gb", "3g.40gb")),
    ),
    Recipe(
        name="batch-share",
        count=300,
        teams=EVERY_TEAM,
        make=on("Tesla-T4", share(WorkloadKind.BATCH_INFERENCE, (250, 500))),
    ),
)
BORROW: Final = (
    Recipe(name="vision-8", count=400, teams=("vision",), make=on(H100, whole(1, 8))),
)
OWNER: Final = (Recipe(name="llm-128", count=1, teams=("language",), make=_one_block),)
UNDER_FIRE: Final = (
    Recipe(
        name="under-fire",
        count=300,
        teams=EVERY_TEAM,
        make=on("NVIDIA-L4", share(WorkloadKind.BATCH_INFERENCE, (100,))),
    ),
)


def items_of(run: str, recipes: Sequence[Recipe], seed: int = 7) -> list[Item]:
    """Every workload of the recipes in a random order; `run` goes into names and keys."""
    dice = random.Random(seed)
    items = [
        _item(run, recipe, number, dice) for recipe in recipes for number in range(recipe.count)
    ]
    dice.shuffle(items)
    return items


def _item(run: str, recipe: Recipe, number: int, dice: random.Random) -> Item:
    name = f"{run}-{recipe.name}-{number:03d}"
    spec = replace(
        recipe.make(dice), name=name, labels=LABEL, expected_duration_seconds=STAY_SECONDS
    )
    return Item(
        team=recipe.teams[number % len(recipe.teams)],
        recipe=recipe.name,
        wrong=False,
        submission=Submission(key=name, spec=spec),
    )
