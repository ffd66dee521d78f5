"""Products of GPUs by the names that people use: H100 for NVIDIA-H100-80GB-HBM3.

A name that some node reports is meant as it stands. Another one means every product of the fleet
that has all its words, whatever their case and order: A100-80GB is each A100 of 80 GB. What means
nothing is left as it is, and refused where the fleet is asked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from shared.core.model.nouns import GpuChoice
from shared.core.model.value import replace

_BETWEEN_WORDS: Final = re.compile(r"[^a-z0-9]+")


def in_full(choice: GpuChoice, products: Collection[str]) -> GpuChoice:
    """The choice with the names that nodes report; `products` are those of the fleet.

    O(names x products). Of two names that mean one product the larger weight holds.
    """
    named = {*choice.products, *choice.preferred_products}
    if named <= {*products}:
        return choice
    weights: dict[str, int] = {}
    for name, weight in choice.preferred_products.items():
        for product in meant(name, products):
            weights[product] = max(weight, weights.get(product, weight))
    every = (product for name in choice.products for product in meant(name, products))
    return replace(choice, products=tuple(dict.fromkeys(every)), preferred_products=weights)


def meant(name: str, products: Collection[str]) -> Iterable[str]:
    """Products that `name` means, in alphabetical order; the name itself if none."""
    if name in products:
        return (name,)
    words = _words(name)
    return sorted(one for one in products if words and words <= _words(one)) or (name,)


def _words(name: str) -> set[str]:
    return {*_BETWEEN_WORDS.split(name.lower())} - {""}
