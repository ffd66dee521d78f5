"""Taints that have a meaning of their own; placement/feasibility.py says what may ignore which."""

from __future__ import annotations

from typing import Final

GPU_TAINT: Final = "nvidia.com/gpu"
"""Keeps pods without a GPU off nodes that have some."""
SHUNNED: Final = "muster/shunned:NoSchedule"
"""Of a node on which nothing starts (core/nodes/shunning.py), in the cluster's state alone: it is
of a kind of its own."""
SOFT_EFFECT: Final = "PreferNoSchedule"
"""Keeps no pod away."""


def tolerates(toleration: str, taint: str) -> bool:
    """Whether `key`, `key=value`, `key:Effect` or `key=value:Effect` covers a taint.

    What a toleration leaves out, it leaves open.
    """
    wanted, _, effect = toleration.partition(":")
    body, _, has_effect = taint.partition(":")
    if effect and effect != has_effect:
        return False
    return body == wanted if "=" in wanted else body.partition("=")[0] == wanted


def is_for_gpu_work(taint: str) -> bool:
    """Whether it keeps pods without a GPU away."""
    body, _, effect = taint.partition(":")
    return body.partition("=")[0] == GPU_TAINT and effect != SOFT_EFFECT
