"""What a pod set asks of its nodes beside amounts: pool, product, memory of a GPU, versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from shared.core.admission.fleet_shape import NodeShape
from shared.core.cluster.choice_filters import CHOICE_FILTERS
from shared.core.model.charges import gpu_milli as pod_gpu_milli
from shared.core.model.nouns import GpuChoice, PodSet

NAMED_MAX: Final = 8
"""Names that a refusal lists."""

Wish = tuple[str, str, Callable[[NodeShape], bool], Callable[[NodeShape], str]]
"""(field of `gpu_choice`, what is wanted, whether a shape has it, what a shape has instead)."""


def filters_of(pod_set: PodSet, choice: GpuChoice) -> list[Callable[[NodeShape], bool]]:
    """What a shape must pass to have everything that is asked of it, and to take such pods."""
    filters = [accepts for _, _, accepts, _ in wishes(pod_set, choice)]
    if not pod_gpu_milli(pod_set.gpu):
        filters.append(takes_cpu_work)
    return filters


def takes_cpu_work(shape: NodeShape) -> bool:
    """Whether pods without a GPU may run there."""
    return not shape.gpu_work_only


def wishes(pod_set: PodSet, choice: GpuChoice) -> Iterable[Wish]:
    """All of them, in the order in which a refusal names the first that nothing has."""
    yield _pool_wish(choice)
    if pod_gpu_milli(pod_set.gpu):
        yield from _gpu_wishes(choice)


def _pool_wish(choice: GpuChoice) -> Wish:
    if choice.node_pool:
        return (
            "node_pool",
            choice.node_pool,
            lambda shape: shape.pool == choice.node_pool,
            lambda shape: shape.pool,
        )
    return (
        "node_pool",
        "",
        lambda shape: not shape.dedicated,
        lambda shape: f"{shape.pool} (name it to use it)",
    )


def _gpu_wishes(choice: GpuChoice) -> Iterable[Wish]:
    for one in CHOICE_FILTERS:
        if one.asked(choice):
            wanted, has = _WORDS[one.field]
            yield one.field, wanted(choice), partial(one.passes, choice), has


_WORDS: Final[dict[str, tuple[Callable[[GpuChoice], str], Callable[[NodeShape], str]]]] = {
    "products": (
        lambda choice: ", ".join(choice.products[:NAMED_MAX]),
        lambda shape: shape.product,
    ),
    "min_memory_mib": (
        lambda choice: str(choice.min_memory_mib),
        lambda shape: f"{shape.product} {shape.gpu_memory_mib} MiB",
    ),
    "min_driver": (lambda choice: choice.min_driver, lambda shape: shape.driver),
    "cuda": (lambda choice: choice.cuda, lambda shape: shape.cuda),
}
"""By field: what is wanted, and what a shape has instead."""


def named(names: Iterable[str]) -> str:
    """A bounded list of different names."""
    found = sorted({name for name in names if name})
    if not found:
        return "none"
    more = f" and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
    return ", ".join(found[:NAMED_MAX]) + more
