"""What an inventory must not be, from any source: asked where it is read from the log."""

from __future__ import annotations

from typing import Final

from shared.core.model.mig import reported as mig_reported
from shared.core.model.nouns import Gpu, MigInstance, Node
from shared.core.model.units import SLICES

IMAGES_MAX: Final = 64
IMAGE_CHARACTERS_MAX: Final = 1_024


def problem_of(node: Node) -> str:
    """The first broken rule, with the field; empty when there is none. O(GPUs + images)."""
    if len(node.images) > IMAGES_MAX:
        return f"images: {len(node.images)} are given, at most {IMAGES_MAX} are allowed"
    for image in node.images:
        if not 0 < len(image) <= IMAGE_CHARACTERS_MAX:
            return f"images: a reference has 1 to {IMAGE_CHARACTERS_MAX} characters"
    indexes = [gpu.index for gpu in node.gpus]
    if len(set(indexes)) < len(indexes):
        return "gpus: an index is there twice"
    for gpu in node.gpus:
        problem = _of_gpu(gpu)
        if problem:
            return f"gpus[{gpu.index}].{problem}"
    return ""


def _of_gpu(gpu: Gpu) -> str:
    if gpu.index < 0 or gpu.memory_mib < 0:
        return "index, memory_mib: must not be negative"
    return mig_reported.problem_of(gpu.mig_placements) or _of_instances(gpu.mig_instances)


def _of_instances(instances: tuple[MigInstance, ...]) -> str:
    taken = 0
    for one in instances:
        if one.start < 0 or one.size < 1 or one.start + one.size > SLICES:
            return f"mig_instances: {one.start}:{one.size} is outside the board"
        mask = (1 << one.size) - 1 << one.start
        if taken & mask:
            return f"mig_instances: {one.start}:{one.size} overlaps another"
        taken |= mask
    return ""
