"""What a state says of a workload where no more is recorded: code, sentence, next step."""

from __future__ import annotations

from typing import Final

from shared.core.model.lifecycle import State
from shared.core.model.reason import Reason

OF_STATE: Final = {
    State.RECEIVED: (Reason.RECEIVED, "it is durable and waits for admission", "wait a moment"),
    State.QUEUED: (Reason.PENDING, "it is queued and was not tried yet", "wait for its turn"),
    State.HELD: (Reason.HELD, "it is on hold", "release it"),
    State.PLACED: (Reason.PLACED, "its devices are charged and its pods are being made", ""),
    State.BOUND: (Reason.BOUND, "its pods are written to the cluster and start", ""),
    State.RUNNING: (Reason.RUNNING, "its pods run", ""),
    State.EVICTING: (Reason.EVICTING, "its pods are being stopped", "it queues again by itself"),
    State.CANCELLING: (Reason.CANCELLED, "its pods are being stopped", ""),
    State.SUCCEEDED: (Reason.SUCCEEDED, "all of its pods ended well", ""),
    State.FAILED: (Reason.FAILED, "it failed", "look at its pods and submit it again"),
    State.CANCELLED: (Reason.CANCELLED, "it was cancelled", ""),
    State.REJECTED: (
        Reason.REJECTED,
        "it can never run as it is",
        "change what is named and submit it again",
    ),
}


def with_next(message: str, next_step: str) -> str:
    """A reason as one line: the sentence, and what would change it, if anything is known."""
    return f"{message} Next: {next_step}" if next_step else message
