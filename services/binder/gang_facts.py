"""What is to be told next about one attempt; each fact is told once."""

from __future__ import annotations

from services.binder.gang_state import (
    BOUND,
    RUNNING,
    SUCCEEDED,
    GangState,
    Noted,
    PodsGoal,
    ToldFact,
)
from shared.events.pods import (
    PodDevices,
    PodDevicesTold,
    PodFact,
    PodsBound,
    PodsFinished,
    PodsGone,
    PodsPulled,
    PodsPulling,
    PodsResized,
    PodsRunning,
    ResizeRefused,
)


def next_fact(gang: GangState, now_ms: int) -> PodFact | None:
    """The next fact to tell, once; in RUN only the furthest of those that are true."""
    if gang.told is ToldFact.END or gang.goal is PodsGoal.CLOSE:
        return None
    return (
        _fact_of_run(gang, now_ms) if gang.goal is PodsGoal.RUN else _fact_of_clear(gang, now_ms)
    )


def _fact_of_run(gang: GangState, now_ms: int) -> PodFact | None:
    if gang.resizing:
        return _fact_of_resize(gang, now_ms)
    low = gang.low()
    if low == SUCCEEDED == max(gang.marks[: gang.size]):
        gang.told = ToldFact.END
        return PodsFinished(succeeded=True, **gang.who(now_ms))
    if gang.told < ToldFact.RUNNING and low >= RUNNING:
        gang.told = ToldFact.RUNNING
        return PodsRunning(**gang.who(now_ms))
    if gang.told < ToldFact.BOUND and low >= BOUND and now_ms >= gang.settle_at_ms:
        gang.told = ToldFact.BOUND
        return PodsBound(**gang.who(now_ms))
    return _fact_beside(gang, now_ms)


def _fact_beside(gang: GangState, now_ms: int) -> PodFact | None:
    """What is told without another state; a pull only after `PodsBound`, the start of a limit."""
    if gang.told is ToldFact.RUNNING and gang.allocated:
        pods = [PodDevices(rank=rank, devices=uuids) for rank, uuids in gang.allocated.take()]
        return PodDevicesTold(pods=tuple(pods), **gang.who(now_ms))
    if gang.told is ToldFact.BOUND and bool(gang.pulling) != gang.told_pulling:
        gang.told_pulling = not gang.told_pulling
        return PodsPulling(**gang.who(now_ms)) if gang.pulling else PodsPulled(**gang.who(now_ms))
    return None


def _fact_of_resize(gang: GangState, now_ms: int) -> PodFact | None:
    if gang.in_flight or gang.unknown_round or gang.surplus_runs() or not gang.bound():
        return None
    number, gang.resizing = gang.resizing, 0
    if gang.setback is None:
        return PodsResized(number=number, pods=gang.size, **gang.who(now_ms))
    reason, message, node = gang.setback
    return ResizeRefused(
        number=number, reason=reason, message=message, node=node, **gang.who(now_ms)
    )


def _fact_of_clear(gang: GangState, now_ms: int) -> PodFact | None:
    if gang.cleared():
        return _end(gang, now_ms)
    if gang.to_be_noted() and gang.noted is Noted.NO:
        gang.noted = Noted.ASKED
        return PodsFinished(succeeded=True, **gang.who(now_ms))
    return None


def _end(gang: GangState, now_ms: int) -> PodFact:
    gang.told = ToldFact.END
    if gang.outcome is not None:
        return gang.outcome
    return PodsGone(succeeded=gang.all_well(), **gang.who(now_ms))
