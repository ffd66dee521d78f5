"""What is said of all classes of work: the largest saving first (ADR 94)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Final

import msgspec

from services.gateway.usage.rightsize_views import RightsizeItem, RightsizeReport
from shared.core.model.mig.reported import reported_by, table_of
from shared.core.model.nouns import Node, WorkloadKind
from shared.core.model.units import GPU_MILLI, SLICES
from shared.core.quota.cost import rounded
from shared.core.rightsize import (
    Board,
    ClassEvidence,
    Form,
    HeldForm,
    SizeJudgement,
    SizeVerdict,
    judge,
)
from shared.core.usage import UseAmounts
from shared.events.usage import ClassKey, WorkClassUse

_TOLD: Final = frozenset(
    (SizeVerdict.SMALLER, SizeVerdict.MEMORY, SizeVerdict.COMPUTE, SizeVerdict.FORM)
)
_classes: Final = msgspec.json.Decoder(WorkClassUse)
_nodes: Final = msgspec.json.Decoder(Node)
_NONE: Final[Mapping[SizeVerdict, str]] = {
    SizeVerdict.MEMORY: "its memory fits nothing smaller",
    SizeVerdict.COMPUTE: "its busiest times need what it has",
    SizeVerdict.FORM: "there is no smaller form that its kind may ask for in this flavor",
}


def boards_of(bodies: Iterable[str]) -> dict[str, Board]:
    """The GPUs of each flavor; profiles are those of boards that are in MIG mode. O(GPUs)."""
    memory: dict[str, int] = {}
    profiles: dict[str, set[tuple[str, int, int, int]]] = {}
    slices: dict[str, int] = {}
    for body in bodies:
        node = _nodes.decode(body)
        for gpu in node.gpus:
            memory[node.flavor] = min(memory.get(node.flavor, gpu.memory_mib), gpu.memory_mib)
        mig_gpu = next((gpu for gpu in node.gpus if gpu.mig), None)
        if mig_gpu is None:
            continue
        table = table_of(node.product, mig_gpu.memory_mib, reported_by(node))
        for one in table.plain if table is not None else ():
            has_mib = mig_gpu.memory_mib * one.size // SLICES
            told = profiles.setdefault(node.flavor, set())
            told.add((one.name, one.compute, one.milli, has_mib))
            slices[node.flavor] = max(slices.get(node.flavor, 1), one.compute)
    return {
        flavor: Board(
            memory_mib=mib,
            profiles=tuple(sorted(profiles.get(flavor, ()))),
            compute_slices=slices.get(flavor, 1),
        )
        for flavor, mib in memory.items()
    }


def report_of(
    bodies: Iterable[str],
    boards: Mapping[str, Board],
    prices: Mapping[str, int],
    since: date,
    limit: int,
) -> RightsizeReport:
    """What is said of all classes; O(rows x values)."""
    verdicts: Counter[SizeVerdict] = Counter()
    items = []
    for key, seen in _merged(bodies).items():
        team, kind, name, flavor, gpus, gpus_each, milli, image = key
        held = HeldForm(
            kind=WorkloadKind(kind), pods=max(gpus // gpus_each, 1), gpus=gpus, milli=milli
        )
        found = judge(held, seen, boards.get(flavor, Board(memory_mib=0)))
        verdicts[found.verdict] += 1
        if found.verdict in _TOLD:
            proposal = found.proposal
            items.append(
                RightsizeItem(
                    team=team,
                    kind=held.kind,
                    name=name,
                    image=image,
                    flavor=flavor,
                    gpus=gpus,
                    milli=milli,
                    verdict=found.verdict,
                    use_percent=found.use_percent,
                    unmeasured_percent=found.unmeasured_percent,
                    run_hours=found.run_hours,
                    busy_percent=found.busy_percent,
                    memory_mib=found.memory_mib,
                    form=None if proposal is None else proposal.form,
                    new_gpus=0 if proposal is None else proposal.gpus,
                    new_milli=0 if proposal is None else proposal.milli,
                    profile="" if proposal is None else proposal.profile,
                    saved_gpu_ms=(found.saved + GPU_MILLI // 2) // GPU_MILLI,
                    saved_microdollars=rounded(found.saved * prices.get(flavor, 0)),
                    message=_sentence(held, found),
                )
            )
    items.sort(key=lambda one: (-one.saved_microdollars, -one.saved_gpu_ms, one.team, one.name))
    return RightsizeReport(
        since=since.isoformat(),
        items=tuple(items[:limit]),
        left_out=max(len(items) - limit, 0),
        busy=verdicts[SizeVerdict.BUSY],
        short=verdicts[SizeVerdict.SHORT],
        unmeasured=verdicts[SizeVerdict.UNMEASURED],
        saved_gpu_ms=sum(one.saved_gpu_ms for one in items),
        saved_microdollars=sum(one.saved_microdollars for one in items),
    )


def _merged(bodies: Iterable[str]) -> dict[ClassKey, ClassEvidence]:
    """The evidence of all weeks and cells by class."""
    sums: dict[ClassKey, list[int]] = {}
    weights: dict[ClassKey, tuple[Counter[int], Counter[int]]] = {}
    for body in bodies:
        one = _classes.decode(body)
        key = one.key
        total = sums.setdefault(key, [0, 0, 0])
        for index, amount in enumerate((one.used, one.unused, one.unmeasured)):
            total[index] += amount
        percents, memory = weights.setdefault(key, (Counter(), Counter()))
        _add(percents, one.percents, one.percents_ms)
        _add(memory, one.memory_mib, one.memory_ms)
    return {
        key: ClassEvidence(
            amounts=UseAmounts(used=used, unused=unused, unmeasured=unmeasured),
            percents=dict(weights[key][0]),
            memory_mib=dict(weights[key][1]),
        )
        for key, (used, unused, unmeasured) in sums.items()
    }


def _add(into: Counter[int], values: Sequence[int], weights: Sequence[int]) -> None:
    for value, weight in zip(values, weights, strict=True):
        into[value] += weight


def _sentence(held: HeldForm, found: SizeJudgement) -> str:
    seen = (
        f"uses {found.use_percent} % of what it holds, at most {found.busy_percent} % of a GPU in"
        f" 95 % and {found.memory_mib} MiB in 99 % of {found.run_hours} run hours"
    )
    one = found.proposal
    if one is None:
        return f"{seen}; {_NONE[found.verdict]}"
    many = f"{one.gpus} x " if held.gpus > 1 else ""
    match one.form:
        case Form.FEWER:
            enough = f"{one.gpus} in place of {held.gpus} GPUs"
        case Form.MIG:
            enough = f"{many}{one.profile}"
        case _:
            enough = f"{many}a share of {one.milli} thousandths"
    return f"{seen}; enough: {enough}"
