"""A scenario: a document of faults in time, and the plan that follows from it and a seed.

`any` stands for a simulated node, or a GPU of the node, that the seed picks. The draw of a step
depends on the seed and its number alone, so that a change of one step leaves the others as they
are: the same document, nodes and seed give the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from operations.chaos.document import Fields
from operations.chaos.faults import (
    CODE_MAX,
    ON_NODES,
    SECONDS_MAX,
    XID_DEFAULT,
    Fault,
    Strike,
)
from operations.chaos.places import Place, checked
from operations.failures import Failure, Refused
from shared.core.admission.errors import Errors

ANY: Final = "any"
ANY_GPU: Final = -1
GPU_MAX: Final = 255
STEPS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One entry of the document."""

    at_s: float
    """Seconds after the start."""
    do: Fault
    node: str
    """Name of a node, or `any`."""
    gpu: int = 0
    """Index, or `ANY_GPU`."""
    code: int = XID_DEFAULT
    for_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A fault with its time and its place."""

    at_s: float
    strike: Strike
    place: Place


def steps_of(value: object, errors: Errors) -> tuple[Step, ...]:
    """The steps of a document, as they stand there: a list, or a mapping with `steps`."""
    if isinstance(value, Mapping):
        fields = Fields(value, "", errors)
        value = fields.items("steps", STEPS_MAX)
        fields.end()
    elif not isinstance(value, list) or not 0 < len(value) <= STEPS_MAX:
        errors.add("", value, f"must be a list of 1 to {STEPS_MAX:,} steps")
        return ()
    return tuple(_step(one, f"steps[{at}].", errors) for at, one in enumerate(value))


def _step(value: object, path: str, errors: Errors) -> Step:
    fields = Fields(value, path, errors)
    step = Step(
        at_s=fields.number("at_s", 0, SECONDS_MAX),
        do=Fault(fields.choice("do", [one.value for one in Fault])),
        node=fields.text("node"),
        gpu=_gpu(fields),
        code=fields.integer("code", 0, CODE_MAX, XID_DEFAULT),
        for_s=fields.integer("for_s", 0, SECONDS_MAX, 0),
    )
    fields.end()
    return step


def _gpu(fields: Fields) -> int:
    value = fields.raw("gpu")
    if value is None:
        return 0
    if value == ANY:
        return ANY_GPU
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= GPU_MAX:
        fields.wrong("gpu", value, f"must be {ANY} or a whole number from 0 to {GPU_MAX}")
        return 0
    return value


def names_of(steps: Sequence[Step]) -> set[str]:
    """The nodes that are named."""
    return {step.node for step in steps} - {ANY}


def plan_of(steps: Sequence[Step], places: Mapping[str, Place], seed: str) -> tuple[Planned, ...]:
    """The faults in order of time, of equal times in that of the document.

    Raises:
        Refused: a step has no place among `places`, or none where its fault may be made.
    """
    planned, errors = [], Errors()
    for at, step in enumerate(steps):
        try:
            planned.append(_planned(step, places, Random(f"{seed}/{at}")))
        except Failure as failure:
            errors.add(f"steps[{at}].node", step.node, str(failure))
    if errors:
        lines = [f"  {one.field}: {one.rule} (given: {one.value})" for one in errors]
        raise Refused("\n".join(["the scenario is refused", *lines]))
    return tuple(sorted(planned, key=lambda one: one.at_s))


def _planned(step: Step, places: Mapping[str, Place], random: Random) -> Planned:
    place = _drawn(step, places, random) if step.node == ANY else places.get(step.node)
    gpu = (
        random.randrange(place.gpus) if place and place.gpus and step.gpu == ANY_GPU else step.gpu
    )
    strike = Strike(
        fault=step.do,
        node=place.name if place is not None else step.node,
        gpu=max(gpu, 0),
        code=step.code,
        for_s=step.for_s,
    )
    return Planned(at_s=step.at_s, strike=strike, place=checked(strike, place))


def _drawn(step: Step, places: Mapping[str, Place], random: Random) -> Place:
    """A simulated node that has the GPU; for a fault of a node any that has GPUs."""
    least = 0 if step.do in ON_NODES else max(step.gpu, 0)
    fit = [
        place
        for _, place in sorted(places.items())
        if place.simulated and place.ready and place.gpus > least
    ]
    if not fit:
        raise Failure(f"no simulated node that is up has a GPU {least}")
    return random.choice(fit)


def as_json(plan: Sequence[Planned]) -> list[dict[str, Any]]:
    """The plan, for programs."""
    return [
        {
            "at_s": one.at_s,
            "do": one.strike.fault.value,
            "node": one.strike.node,
            **({} if one.strike.fault in ON_NODES else {"gpu": one.strike.gpu}),
            **({"code": one.strike.code} if one.strike.fault is Fault.XID else {}),
            **({"for_s": one.strike.for_s} if one.strike.fault is Fault.SILENT else {}),
        }
        for one in plan
    ]
