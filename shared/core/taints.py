"""Taints that have a meaning of their own; core/feasibility.py says who may ignore which."""

from __future__ import annotations

from typing import Final

GPU_TAINT: Final = "nvidia.com/gpu"
"""Keeps pods without a GPU off nodes that have some."""
SOFT_EFFECT: Final = "PreferNoSchedule"
"""Keeps nobody away."""


def is_for_gpu_work(taint: str) -> bool:
    """Whether it keeps pods without a GPU away."""
    body, _, effect = taint.partition(":")
    return body.partition("=")[0] == GPU_TAINT and effect != SOFT_EFFECT
