"""Taints that have a meaning of their own; core/feasibility.py says who may ignore which."""

from __future__ import annotations

from typing import Final

GPU_TAINT: Final = "nvidia.com/gpu"
"""Keeps pods without a GPU off nodes that have some."""
SOFT_EFFECT: Final = "PreferNoSchedule"
"""Keeps nobody away."""
