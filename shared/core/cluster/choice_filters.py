"""What `gpu_choice` asks of a node's GPUs: one list, in the order in which refusals name them.

Admission asks it of the shapes of the empty fleet, placement of its node classes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from shared.core.model.nouns import GpuChoice

_NUMBERS: Final = re.compile(r"\d+")


class Offer(Protocol):
    """What nodes that are alike have; empty where it is not known."""

    @property
    def product(self) -> str:
        """Product of their GPUs."""

    @property
    def gpu_memory_mib(self) -> int:
        """Memory of the smallest of their GPUs."""

    @property
    def driver(self) -> str:
        """Version of the driver."""

    @property
    def cuda(self) -> str:
        """Newest CUDA that the driver supports."""


@dataclass(frozen=True, slots=True)
class ChoiceFilter:
    """One field of `gpu_choice`."""

    field: str
    """Its name, which refusals tell."""
    asked: Callable[[GpuChoice], bool]
    """Whether a choice asks for anything."""
    passes: Callable[[GpuChoice, Offer], bool]
    """Whether nodes have it."""


CHOICE_FILTERS: Final = (
    ChoiceFilter(
        "products",
        lambda choice: bool(choice.products),
        lambda choice, offer: offer.product in choice.products,
    ),
    ChoiceFilter(
        "min_memory_mib",
        lambda choice: bool(choice.min_memory_mib),
        lambda choice, offer: offer.gpu_memory_mib >= choice.min_memory_mib,
    ),
    ChoiceFilter(
        "min_driver",
        lambda choice: bool(choice.min_driver),
        lambda choice, offer: version(offer.driver) >= version(choice.min_driver),
    ),
    # The image's CUDA may be no newer than what the node's driver supports.
    ChoiceFilter(
        "cuda",
        lambda choice: bool(choice.cuda),
        lambda choice, offer: version(offer.cuda) >= version(choice.cuda),
    ),
)


def lacking(choice: GpuChoice, offer: Offer) -> ChoiceFilter | None:
    """The first filter that nodes like `offer` do not pass; None if they pass all."""
    for one in CHOICE_FILTERS:
        if one.asked(choice) and not one.passes(choice, offer):
            return one
    return None


def version(text: str) -> tuple[int, ...]:
    """`535.104.05` as numbers; an unknown version (empty) is older than any."""
    return tuple(map(int, _NUMBERS.findall(text)))
