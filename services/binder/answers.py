"""What is told again of an attempt that is asked about: the fact by which its row came so far.

A row has no more of a failure than the pod's own reason. Its words, its node and its exit code
were told once; what follows from the reason alone is told again.
"""

from __future__ import annotations

from typing import Any, Final

from services.binder.attempts import ANSWERED, REFUSED, STATES, Attempt
from services.binder.gang_state import POD_LOST
from shared.core.model.lifecycle import State
from shared.core.nodes.pod_failures import FailureCause, cause_of_failure, never_starts
from shared.events.pods import (
    AskedAttempt,
    BindRefused,
    PodFact,
    PodsBound,
    PodsFinished,
    PodsGone,
    PodsResized,
    PodsRunning,
    ResizeRefused,
)

AGAIN: Final = "told again, as it was not heard"
UNHEARD: Final = "ResizeUnheard"
_KNOWN: Final = {State.PLACED: 0, State.BOUND: 1, State.RUNNING: 2}
"""Place in `STATES` of what placement knows; of what it stops only the end is news."""


def beyond(attempt: Attempt, known: State) -> bool:
    """Whether the row is further than placement knows."""
    known_place = len(STATES) if attempt.evicting else _KNOWN.get(known, len(STATES))
    return not attempt.active or STATES.index(attempt.state) > known_place


def last_fact(attempt: Attempt, at_ms: int) -> PodFact:
    """The fact by which a row that is bound, or further, came to be so."""
    who = _who(attempt, at_ms)
    if attempt.state == STATES[1]:
        return PodsBound(**who)
    if attempt.state == STATES[2]:
        return PodsRunning(**who)
    if attempt.state == ANSWERED:
        return PodsGone(succeeded=attempt.succeeded, **who)
    if attempt.state == REFUSED:
        return BindRefused(reason=attempt.reason, message=AGAIN, **who)
    if attempt.succeeded:
        return PodsFinished(succeeded=True, **who)
    cause = _cause(attempt.reason)
    lost = cause in (FailureCause.TAKEN_AWAY, FailureCause.KUBELET_REFUSED)
    return PodsFinished(
        succeeded=False, lost=lost, cause=cause, reason=attempt.reason, message=AGAIN, **who
    )


def resize_fact(attempt: Attempt, asked: AskedAttempt, at_ms: int) -> PodFact:
    """The answer to a resize that is not under way: by the pods that the row has.

    A refusal and a command that never came leave the same row, and have the same answer.
    """
    who = _who(attempt, at_ms) | {"number": asked.resize}
    if attempt.size == asked.resize_pods:
        return PodsResized(pods=attempt.size, **who)
    return ResizeRefused(reason=UNHEARD, pod_reason=UNHEARD, message=AGAIN, **who)


def _who(attempt: Attempt, at_ms: int) -> dict[str, Any]:
    """What all facts of an attempt share."""
    return {
        "workload_id": attempt.workload_id,
        "attempt": attempt.attempt,
        "at_ms": at_ms,
        "cell": attempt.cell,
    }


def _cause(reason: str) -> FailureCause:
    if never_starts(reason):
        return FailureCause.NEVER_STARTS
    return cause_of_failure(reason, deleted=reason == POD_LOST)
