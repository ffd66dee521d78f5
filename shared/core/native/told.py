"""What an object beside the pods says of their group: its size, or why it is no gang here."""

from __future__ import annotations

from typing import Final

from shared.core.model.decision import FieldError
from shared.core.model.value import Value

GROUP_SIZE_MAX: Final = 4_096


class IndexedJob(Value, frozen=True, kw_only=True):
    """What an Indexed Job says of its pods."""

    parallelism: int
    completions: int
    over: bool = False
    """It makes no more pods."""

    @property
    def is_gang(self) -> bool:
        """Whether all of its pods run at once, so that they can be a gang."""
        return self.parallelism == self.completions > 1


class GroupObject(Value, frozen=True, kw_only=True):
    """What a PodGroup of some kind, a JobSet or a job of Kubeflow says of its pods."""

    size: int
    """Pods that run together or not at all; counts only where nothing is refused."""
    refused: FieldError | None = None
    """The first of its fields that cannot be honoured."""
    over: bool = False
    """It makes no more pods; a PodGroup makes none at all."""


ToldGroup = IndexedJob | GroupObject


def size_told(told: ToldGroup) -> int | FieldError:
    """The number of pods of the group; what is wrong with what the object says."""
    if isinstance(told, IndexedJob):
        return told.parallelism if told.is_gang else _no_gang(told)
    return told.refused or told.size


def _no_gang(job: IndexedJob) -> FieldError:
    return FieldError(
        field="spec.parallelism",
        value=str(job.parallelism),
        rule=f"must equal completions ({job.completions}): pods of an Indexed Job are a gang",
        remedy="make them equal, or leave completionMode out so that each pod runs alone",
    )
