"""What a simulated kubelet does with a pod that is to start, and the words it has for it."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

REFUSED: Final = "UnexpectedAdmissionError"
WORDS_OF_REFUSAL: Final = (
    "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu."
    " Requested: 1, Available: 0, which is unexpected"
)
TRIES_AGAIN_MS: Final = 10_000


class Kubelet(StrEnum):
    """The four ways."""

    STARTS = "starts"
    REFUSES = "refuses"
    CANNOT_PULL = "cannot-pull"
    CANNOT_CREATE = "cannot-create"


def why_it_waits(does: Kubelet, before: str) -> tuple[str, str]:
    """Reason and words of a container that does not start; `before` is the reason until now."""
    if does is Kubelet.CANNOT_CREATE:
        return "CreateContainerConfigError", 'secret "missing" not found'
    waiting = (
        "ImagePullBackOff" if before.startswith(("ErrImage", "ImagePull")) else "ErrImagePull"
    )
    return waiting, "failed to pull and unpack image: not found"
