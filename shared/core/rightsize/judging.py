"""The smallest form that like work would have done with, and why there is none.

Of work that uses less than 40 % of what it holds, by at least twenty run hours of which at most a
fifth is unmeasured. It needs 1.15 times the memory that 99 % of the time was enough, and 1.25
times the compute of 95 %. Forms are those that its kind may ask for (`core/admission`): fewer
GPUs, a MIG profile in place of each GPU, a share in place of each. Integers throughout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from shared.core.model.nouns import WorkloadKind
from shared.core.model.units import GPU_MILLI
from shared.core.model.value import Value, field, replace
from shared.core.quota.cost import GPU_HOUR_MILLI_MS
from shared.core.rightsize.evidence import quantile
from shared.core.usage import UseAmounts

USE_PERCENT_MAX: Final = 40
"""From this mean use on nothing is said."""
UNMEASURED_PERCENT_MAX: Final = 20
"""With more of it unmeasured nothing is said."""
RUN_HOURS_MIN: Final = 20
"""Of less nothing is said."""
COMPUTE_PERCENT: Final = 125
"""Of the compute that was used in 95 % of the time."""
MEMORY_PERCENT: Final = 115
"""Of the memory that was used in 99 % of the time."""
SHARE_STEP_MILLI: Final = 50
"""Shares are proposed in such steps."""


class Form(StrEnum):
    """What work may hold of GPUs, and may change to."""

    FEWER = "fewer-gpus"
    MIG = "mig-profile"
    SHARE = "share"


_SMALLER: Final[dict[WorkloadKind, tuple[Form, ...]]] = {
    WorkloadKind.TRAINING: (Form.FEWER,),
    WorkloadKind.INFERENCE: (Form.FEWER, Form.MIG),
    WorkloadKind.BATCH_INFERENCE: (Form.MIG, Form.SHARE),
    WorkloadKind.NOTEBOOK: (Form.MIG, Form.SHARE),
}
"""Forms that each kind may ask for, as admission lets it; of equal size the first is better."""


class SizeVerdict(StrEnum):
    """What is said of like work."""

    SMALLER = "smaller"
    """A smaller form would have done."""
    MEMORY = "memory"
    """Compute alone would let a smaller form do, its memory does not."""
    COMPUTE = "compute"
    """Its busiest times need what it has."""
    FORM = "form"
    """Its kind may ask for no smaller form, or the fleet has none."""
    BUSY = "busy"
    """It uses enough of what it holds."""
    SHORT = "short"
    """It ran for too short a time to tell."""
    UNMEASURED = "unmeasured"
    """Too little of its use, or nothing of its memory, is known."""


class HeldForm(Value, frozen=True, kw_only=True):
    """What each attempt of like work holds: `gpus` in all, `milli` of each, in `pods` pods."""

    kind: WorkloadKind
    pods: int
    gpus: int
    milli: int = GPU_MILLI


class ClassEvidence(Value, frozen=True, kw_only=True):
    """What was seen of like work; milli-GPU milliseconds, and weights by value."""

    amounts: UseAmounts = UseAmounts()
    percents: dict[int, int] = field(default_factory=dict)
    """Milliseconds of a held GPU by its use, in per cent of a whole one."""
    memory_mib: dict[int, int] = field(default_factory=dict)
    """Milliseconds of a held GPU by the class of its used memory in MiB."""


class Board(Value, frozen=True, kw_only=True):
    """The GPUs of a flavor: memory of the smallest, and MIG profiles that the fleet has of it."""

    memory_mib: int
    profiles: tuple[tuple[str, int, int, int], ...] = ()
    """(name, compute slices, milli-GPU, memory in MiB) of each."""
    compute_slices: int = 7
    """Compute slices of a whole GPU."""


class Proposal(Value, frozen=True, kw_only=True):
    """A smaller form: `gpus` GPUs, instances of `profile`, or shares, each of `milli`."""

    form: Form
    gpus: int
    milli: int
    profile: str = ""

    @property
    def total_milli(self) -> int:
        """What quota counts of it."""
        return self.gpus * self.milli


class SizeJudgement(Value, frozen=True, kw_only=True):
    """What is said of like work, and by what."""

    verdict: SizeVerdict
    use_percent: int = 0
    """Mean use of what was measured."""
    unmeasured_percent: int = 0
    """Rounded up."""
    run_hours: int = 0
    """Hours for which attempts held their GPUs, whole ones."""
    busy_percent: int = 0
    """Use of a GPU that 95 % of the time does not exceed."""
    memory_mib: int = 0
    """Used memory of a GPU that 99 % of the time does not exceed."""
    proposal: Proposal | None = None
    saved: int = 0
    """Milli-GPU milliseconds that the smaller form would not have held."""


def judge(held: HeldForm, seen: ClassEvidence, board: Board) -> SizeJudgement:
    """What like work that held this would have done with. O(values + profiles)."""
    allocated, total_milli = seen.amounts.allocated, held.gpus * held.milli
    measured = seen.amounts.used + seen.amounts.unused
    found = SizeJudgement(
        verdict=SizeVerdict.SHORT,
        use_percent=100 * seen.amounts.used // max(measured, 1),
        unmeasured_percent=-(-100 * seen.amounts.unmeasured // max(allocated, 1)),
        run_hours=allocated * GPU_MILLI // max(total_milli * GPU_HOUR_MILLI_MS, 1),
    )
    if found.run_hours < RUN_HOURS_MIN:
        return found
    if found.unmeasured_percent > UNMEASURED_PERCENT_MAX or not (
        seen.percents and seen.memory_mib and board.memory_mib
    ):
        return replace(found, verdict=SizeVerdict.UNMEASURED)
    if 100 * seen.amounts.used >= USE_PERCENT_MAX * measured:
        return replace(found, verdict=SizeVerdict.BUSY)
    busy, memory = quantile(seen.percents, 95), quantile(seen.memory_mib, 99)
    proposals = list(_proposals(held, busy, memory, board))
    proposal = min(proposals, key=lambda one: one.total_milli, default=None)
    saved = 0
    if proposal is not None:
        verdict = SizeVerdict.SMALLER
        saved = allocated * (total_milli - proposal.total_milli) // total_milli
    elif any(_proposals(held, busy, 0, board)):
        verdict = SizeVerdict.MEMORY
    else:
        verdict = SizeVerdict.COMPUTE if any(_proposals(held, 0, 0, board)) else SizeVerdict.FORM
    return replace(
        found,
        verdict=verdict,
        busy_percent=busy,
        memory_mib=memory,
        proposal=proposal,
        saved=saved,
    )


def _proposals(held: HeldForm, busy: int, memory_mib: int, board: Board) -> Iterator[Proposal]:
    """Smaller forms that are enough, the better first."""
    for form in _SMALLER[held.kind]:
        found: Proposal | None
        if form is Form.FEWER:
            found = _fewer(held, busy, memory_mib, board)
        elif held.gpus > held.pods:  # a pod with several GPUs needs them as one
            continue
        elif form is Form.MIG:
            found = _mig(held, busy, memory_mib, board.profiles, board.compute_slices)
        else:
            found = _share(held, busy, memory_mib, board)
        if found is not None and found.total_milli < held.gpus * held.milli:
            yield found


def _fewer(held: HeldForm, busy: int, memory_mib: int, board: Board) -> Proposal:
    """Whole GPUs that have the compute and the memory of all together."""
    compute = -(-held.gpus * busy * COMPUTE_PERCENT // 10_000)
    memory = -(-held.gpus * memory_mib * MEMORY_PERCENT // (100 * board.memory_mib))
    return Proposal(form=Form.FEWER, gpus=max(compute, memory, 1), milli=GPU_MILLI)


def _mig(
    held: HeldForm,
    busy: int,
    memory_mib: int,
    profiles: Sequence[tuple[str, int, int, int]],
    slices: int,
) -> Proposal | None:
    """The smallest profile that is enough, in place of each GPU."""
    enough = [
        (milli, compute, name)
        for name, compute, milli, has_mib in profiles
        if busy * COMPUTE_PERCENT * slices <= compute * 10_000
        and memory_mib * MEMORY_PERCENT <= has_mib * 100
    ]
    if not enough:
        return None
    milli, _, name = min(enough)
    return Proposal(form=Form.MIG, gpus=held.gpus, milli=milli, profile=name)


def _share(held: HeldForm, busy: int, memory_mib: int, board: Board) -> Proposal:
    """A part of a GPU in place of each, in steps."""
    compute = -(-busy * COMPUTE_PERCENT * GPU_MILLI // 10_000)
    memory = -(-memory_mib * MEMORY_PERCENT * GPU_MILLI // (100 * board.memory_mib))
    steps = max(-(-max(compute, memory) // SHARE_STEP_MILLI), 1)
    return Proposal(form=Form.SHARE, gpus=held.gpus, milli=steps * SHARE_STEP_MILLI)
