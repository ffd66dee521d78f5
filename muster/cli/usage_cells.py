"""Cells of CSV that tell amounts exactly and are never a formula."""

from __future__ import annotations

from typing import Final

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""With these a spreadsheet begins a formula."""


def harmless(text: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def microhours(gpu_ms: int) -> int:
    """Millionths of a GPU-hour, rounded."""
    return (gpu_ms * 10 + 18) // 36


def micro(millionths: int) -> str:
    """A number of millionths as decimals."""
    return f"{millionths // 1_000_000}.{millionths % 1_000_000:06d}"
