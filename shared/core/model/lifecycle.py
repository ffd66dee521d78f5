"""The one table of states and transitions of a workload (mission M12).

docs/lifecycle.md is drawn from `TRANSITIONS`; `muster-ops check` keeps its own copy. A version
counts the states a workload went through: `received` is 0, each transition adds one.
A state that follows itself is a change of priority (docs/adr/0057); `queued -> queued` is a
requeue told again, too, and `running -> running` a gang that holds more or fewer pods than before
(docs/adr/0028). `placed -> running` happens when bound and running were seen together
(docs/adr/0011).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """Where a workload stands."""

    RECEIVED = "received"
    REJECTED = "rejected"
    QUEUED = "queued"
    HELD = "held"
    PLACED = "placed"
    BOUND = "bound"
    RUNNING = "running"
    EVICTING = "evicting"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


TERMINAL: Final = frozenset({State.REJECTED, State.SUCCEEDED, State.FAILED, State.CANCELLED})
HOLDING: Final = frozenset(
    {State.PLACED, State.BOUND, State.RUNNING, State.EVICTING, State.CANCELLING}
)
"""States in which the ledger holds devices for the workload."""

TRANSITIONS: Final[dict[State, frozenset[State]]] = {
    State.RECEIVED: frozenset({State.QUEUED, State.REJECTED}),
    State.QUEUED: frozenset({State.QUEUED, State.HELD, State.PLACED, State.CANCELLED}),
    State.HELD: frozenset({State.HELD, State.QUEUED, State.CANCELLED}),
    State.PLACED: frozenset(
        {State.PLACED, State.BOUND, State.RUNNING, State.EVICTING, State.CANCELLING}
        | {State.SUCCEEDED, State.FAILED}
    ),
    State.BOUND: frozenset(
        {State.BOUND, State.RUNNING, State.EVICTING, State.CANCELLING}
        | {State.SUCCEEDED, State.FAILED}
    ),
    State.RUNNING: frozenset(
        {State.RUNNING, State.SUCCEEDED, State.FAILED, State.EVICTING, State.CANCELLING}
    ),
    State.EVICTING: frozenset(
        {State.EVICTING, State.QUEUED, State.HELD, State.CANCELLING}
        | {State.FAILED, State.SUCCEEDED}
    ),
    State.CANCELLING: frozenset({State.CANCELLED, State.SUCCEEDED}),
    State.REJECTED: frozenset(),
    State.SUCCEEDED: frozenset(),
    State.FAILED: frozenset(),
    State.CANCELLED: frozenset(),
}


def allowed(before: State, after: State) -> bool:
    """Whether a workload may go from `before` to `after`."""
    return after in TRANSITIONS[before]
