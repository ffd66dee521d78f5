"""2,000 workloads of every kind, the same for the same seed; a few are wrong on purpose.

Each kind is a recipe: how many, of which team, and how one is made. Numbers were chosen so that
a fleet of 8,000 GPUs is about full and the largest team has to wait for its own quota.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from operations.replay.submitting import Submission
from shared.core.model.nouns import (
    GpuChoice,
    GpuRequest,
    Level,
    PodSet,
    Spread,
    TopologyRequest,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.model.value import replace

SHORT_SECONDS: Final = (5, 12)
LONG_SECONDS: Final = (15, 40)
Make = Callable[[random.Random], WorkloadSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """`count` workloads of the kind `name`, dealt to `teams` in turn."""

    name: str
    count: int
    teams: tuple[str, ...]
    make: Make
    wrong: bool = False
    """Will be rejected, to show how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One submission with its team and recipe."""

    team: str
    recipe: str
    wrong: bool
    submission: Submission


def whole(count: int, gpus: int, kind: WorkloadKind = WorkloadKind.TRAINING) -> Make:
    """`count` pods of `gpus` whole GPUs each: a gang when there are several."""

    def make(dice: random.Random) -> WorkloadSpec:
        pods = PodSet(
            count=count, gpu=GpuRequest(count=gpus), cpu_milli=8000 * gpus, memory_mib=32_768
        )
        return WorkloadSpec(
            name="x",
            kind=kind,
            pod_sets=(pods,),
            expected_duration_seconds=dice.randint(*SHORT_SECONDS),
        )

    return make


def gang(count: int, level: Level) -> Make:
    """`count` whole nodes of eight GPUs, near together up to `level` if that is possible."""
    base = whole(count, 8)
    return lambda dice: replace(base(dice), topology=TopologyRequest(preferred=level))


def share(kind: WorkloadKind, sizes: tuple[int, ...]) -> Make:
    """One pod with a share of one GPU, of one of these sizes in milli-GPU."""

    def make(dice: random.Random) -> WorkloadSpec:
        milli = dice.choice(sizes)
        gpu = GpuRequest(milli=milli, memory_mib=14_000 * milli // 1000)
        pods = PodSet(gpu=gpu, cpu_milli=2000, memory_mib=8192)
        return WorkloadSpec(
            name="x",
            kind=kind,
            pod_sets=(pods,),
            expected_duration_seconds=dice.randint(*LONG_SECONDS),
        )

    return make


def slices(kind: WorkloadKind, profiles: tuple[str, ...]) -> Make:
    """One pod with one MIG slice of one of these profiles."""

    def make(dice: random.Random) -> WorkloadSpec:
        gpu = GpuRequest(mig_profile=dice.choice(profiles), mig_count=1)
        pods = PodSet(gpu=gpu, cpu_milli=4000, memory_mib=16_384)
        return WorkloadSpec(
            name="x",
            kind=kind,
            pod_sets=(pods,),
            expected_duration_seconds=dice.randint(*LONG_SECONDS),
        )

    return make


def replicas(dice: random.Random) -> WorkloadSpec:
    """A served model: replicas on nodes of their own, never preempted."""
    pods = PodSet(count=3, gpu=GpuRequest(count=1), cpu_milli=8000, memory_mib=65_536)
    return WorkloadSpec(
        name="x",
        kind=WorkloadKind.INFERENCE,
        pod_sets=(pods,),
        priority_class="inference-production",
        spread=Spread.REQUIRED,
        preemptible=False,
        model_parameters_billions=7.0,
        expected_duration_seconds=dice.randint(*LONG_SECONDS),
    )


def _cpu_only(dice: random.Random) -> WorkloadSpec:
    pods = PodSet(cpu_milli=dice.choice((4000, 16_000)), memory_mib=16_384)
    return WorkloadSpec(
        name="x",
        kind=WorkloadKind.BATCH_INFERENCE,
        pod_sets=(pods,),
        expected_duration_seconds=dice.randint(*SHORT_SECONDS),
    )


def _unknown_product(dice: random.Random) -> WorkloadSpec:
    return replace(whole(1, 1)(dice), gpu_choice=GpuChoice(products=("NVIDIA-H9000",)))


def _model_too_large(dice: random.Random) -> WorkloadSpec:
    return replace(
        share(WorkloadKind.BATCH_INFERENCE, (500,))(dice), model_parameters_billions=70.0
    )


EVERY_TEAM: Final = ("language", "vision", "fraud", "platform")
RECIPES: Final = (
    Recipe(name="gang-16x8", count=15, teams=("language",), make=gang(16, Level.BLOCK)),
    Recipe(name="gang-8x8", count=30, teams=("language",), make=gang(8, Level.BLOCK)),
    Recipe(name="gang-4x8", count=45, teams=("vision", "language"), make=gang(4, Level.RACK)),
    Recipe(name="train-8", count=60, teams=("vision", "platform"), make=whole(1, 8)),
    Recipe(name="train-4", count=90, teams=EVERY_TEAM, make=whole(1, 4)),
    Recipe(name="train-1", count=400, teams=EVERY_TEAM, make=whole(1, 1)),
    Recipe(name="serve", count=60, teams=("fraud", "platform"), make=replicas),
    Recipe(
        name="serve-mig",
        count=280,
        teams=EVERY_TEAM,
        make=slices(WorkloadKind.INFERENCE, ("1g.10gb", "2g.20gb", "3g.40gb")),
    ),
    Recipe(
        name="batch-share",
        count=520,
        teams=EVERY_TEAM,
        make=share(WorkloadKind.BATCH_INFERENCE, (100, 250, 330, 500, 800)),
    ),
    Recipe(
        name="notebook-mig",
        count=100,
        teams=EVERY_TEAM,
        make=slices(WorkloadKind.NOTEBOOK, ("1g.10gb",)),
    ),
    Recipe(
        name="notebook",
        count=200,
        teams=EVERY_TEAM,
        make=share(WorkloadKind.NOTEBOOK, (125, 250)),
    ),
    Recipe(name="cpu", count=140, teams=EVERY_TEAM, make=_cpu_only),
    Recipe(name="wrong-product", count=15, teams=("vision",), make=_unknown_product, wrong=True),
    Recipe(
        name="wrong-gang",
        count=15,
        teams=("language",),
        make=whole(2000, 8),
        wrong=True,
    ),
    Recipe(
        name="wrong-notebook",
        count=15,
        teams=("platform",),
        make=whole(1, 1, WorkloadKind.NOTEBOOK),
        wrong=True,
    ),
    Recipe(name="wrong-model", count=15, teams=("fraud",), make=_model_too_large, wrong=True),
)


def load(run: str, seed: int = 7) -> list[Item]:
    """All workloads in a random order; `run` goes into names and idempotency keys."""
    dice = random.Random(seed)
    items = []
    for recipe in RECIPES:
        for number in range(recipe.count):
            name = f"{run}-{recipe.name}-{number:03d}"
            spec = replace(recipe.make(dice), name=name, labels={"demo": recipe.name})
            items.append(
                Item(
                    team=recipe.teams[number % len(recipe.teams)],
                    recipe=recipe.name,
                    wrong=recipe.wrong,
                    submission=Submission(key=name, spec=spec),
                )
            )
    dice.shuffle(items)
    return items
