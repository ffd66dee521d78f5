"""How benchmarks read their options."""

from __future__ import annotations


def numbers(text: str) -> list[int]:
    """`42-44,7` as [42, 43, 44, 7]."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
