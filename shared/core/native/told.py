"""What an object beside the pods says of their group: its size, or why it is no gang here."""

from __future__ import annotations

from typing import Final

from shared.core.model.decision import FieldError
from shared.core.model.value import Value, field

GROUP_SIZE_MAX: Final = 4_096


class GroupObject(Value, frozen=True, kw_only=True):
    """What an Indexed Job, a PodGroup of some kind, a JobSet or the like says of its pods."""

    size: int = 0
    """Pods that run together or not at all; counts only where nothing is refused."""
    refused: FieldError | None = None
    """The first of its fields that cannot be honoured."""
    in_parts: bool = False
    """Its pods start part by part, so each part is a group of its own."""
    parts: dict[str, int] = field(default_factory=dict)
    """Pods of each part; where a part is not named here, the pods tell its size."""
    over: bool = False
    """It makes no more pods; a PodGroup makes none at all."""
    uid: str = ""
    """Of a PodGroup, which is told why its pods wait; empty: of any other object."""
    scheduled: bool | None = None
    """Whether the status of the object says that its pods got their nodes; None: neither."""
