"""What is to be done next in the cluster for one attempt.

Level-triggered: the goal is compared with what is known, so it does not matter which message was
lost or how often something was told.
"""

from __future__ import annotations

from collections.abc import Iterator

from services.binder.gang_state import (
    ABSENT,
    BOUND,
    CREATED,
    NOT_THERE,
    OVER,
    PINNED,
    GangState,
    PodsGoal,
)
from shared.events.pods import PodsFinished
from shared.ports.cluster import GRACE_SECONDS_MIN, PodOperation


def next_operations(gang: GangState, now_ms: int) -> list[tuple[int, PodOperation]]:
    """The next operations with their ranks; empty while waiting for something."""
    if gang.in_flight or gang.unknown_round or now_ms < gang.not_before_ms:
        return []
    if gang.goal is not PodsGoal.RUN or gang.surplus():
        return list(_deletes(gang, now_ms))
    low = gang.low()
    if low >= BOUND:
        return []
    if low == ABSENT:
        return _creates(gang)
    return _pins(gang) if low == CREATED else _binds(gang)


def over(gang: GangState) -> bool:
    """Whether nothing is left to do or to wait for, so that it can be forgotten."""
    return gang.goal is PodsGoal.CLOSE and not gang.in_flight and not any(_deletes(gang, 0))


def _creates(gang: GangState) -> list[tuple[int, PodOperation]]:
    return [
        (
            rank,
            PodOperation(
                verb="adopt" if pod.group else "create",
                namespace=pod.namespace,
                name=pod.name,
                pod=pod,
            ),
        )
        for rank, pod in enumerate(gang.pods)
        if gang.marks[rank] == ABSENT
    ]


def _pins(gang: GangState) -> list[tuple[int, PodOperation]]:
    return [
        (
            rank,
            PodOperation(
                verb="pin",
                namespace=pod.namespace,
                name=gang.name_of(rank),
                uid=gang.uids[rank],
                node=pod.node,
                pod=pod,
            ),
        )
        for rank, pod in enumerate(gang.pods)
        if gang.marks[rank] == CREATED
    ]


def _binds(gang: GangState) -> list[tuple[int, PodOperation]]:
    return [
        (
            rank,
            PodOperation(
                verb="bind",
                namespace=pod.namespace,
                name=gang.name_of(rank),
                uid=gang.uids[rank],
                node=pod.node,
                pod=pod if rank == 0 and pod.in_gang and not pod.group else None,
            ),
        )
        for rank, pod in enumerate(gang.pods)
        if gang.marks[rank] == PINNED
    ]


def _deletes(gang: GangState, now_ms: int) -> Iterator[tuple[int, PodOperation]]:
    keep = OVER if isinstance(gang.outcome, PodsFinished) else NOT_THERE
    spared = keep if gang.goal is PodsGoal.CLEAR else NOT_THERE
    if gang.to_be_noted():
        return
    first = gang.size if gang.goal is PodsGoal.RUN else 0
    for rank, mark in enumerate(gang.marks[first:], first):
        if mark in spared or not gang.uids[rank]:
            continue
        if gang.adopts and (mark in OVER or mark < BOUND):
            yield rank, _release(gang, rank)
            continue
        if gang.stopping.get(rank) in gang.fenced_nodes:
            if now_ms >= gang.forcing.get(rank, 0):
                yield rank, _force_delete(gang, rank)
        elif now_ms >= gang.deleting.get(rank, 0):
            yield rank, _delete(gang, rank)


def _delete(gang: GangState, rank: int) -> PodOperation:
    return PodOperation(
        verb="delete",
        namespace=gang.namespace,
        name=gang.name_of(rank),
        uid=gang.uids[rank],
        grace_seconds=max(gang.grace_seconds, GRACE_SECONDS_MIN),
        disruption=gang.adopts,
    )


def _release(gang: GangState, rank: int) -> PodOperation:
    """What others made and of which no container runs is theirs again, and stays."""
    return PodOperation(
        verb="release",
        namespace=gang.namespace,
        name=gang.name_of(rank),
        uid=gang.uids[rank],
    )


def _force_delete(gang: GangState, rank: int) -> PodOperation:
    return PodOperation(
        verb="force_delete",
        namespace=gang.namespace,
        name=gang.name_of(rank),
        uid=gang.uids[rank],
        node=gang.stopping[rank],
    )
