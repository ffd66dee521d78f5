"""The answers of the search for victims in words and numbers, for the record and `muster why`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from shared.core.model.demand import Gang
from shared.core.model.nouns import Placement, Workload
from shared.core.model.units import GPU_MILLI
from shared.core.model.wording import listing, pod_needs
from shared.core.preemption.eligibility.occupant import Occupant, gpu_milli_of
from shared.core.preemption.eligibility.plan import (
    Alternative,
    EvictionPlan,
    NoEviction,
    Obstacle,
    Rule,
    Victim,
)
from shared.core.preemption.victims.search import Found, VictimSearch

SPARED: Final = {
    Obstacle.PROTECTED: "are of a protected class",
    Obstacle.NOT_EVICTABLE: "do not run, are not preemptible, or are going already",
    Obstacle.PRIORITY: "have no lower priority",
    Obstacle.NOMINAL: "are of queues within their nominal quota",
    Obstacle.COHORT_NOMINAL: "are of cohorts within their nominal quota",
    Obstacle.BELOW_NOMINAL: "would leave their queue or cohort below its nominal quota",
    Obstacle.SHARE: "are of queues with no larger share",
    Obstacle.POLICY: "may not be taken by the policy of the queue",
    Obstacle.MIN_RUNTIME: "are within their minimum run time",
    Obstacle.COOLDOWN: "were evicted lately and cool down",
    Obstacle.LOSS_BUDGET: "would exceed the loss budget of their team",
    Obstacle.PROMISED: "are being evicted for others",
}
NEXT_STEP: Final = {
    Obstacle.FITS: "wait: it fits without an eviction",
    Obstacle.DELAY: "wait until then; the policy of its queue sets the delay",
    Obstacle.NOBODY: "wait for nodes, or allow a flavor in which others hold room",
    Obstacle.PROTECTED: "wait until they end; an operator decides which classes are protected",
    Obstacle.NOT_EVICTABLE: "wait until they end; what does not run yet may go once it does",
    Obstacle.PRIORITY: "wait until they end, or give it a higher priority class",
    Obstacle.NOMINAL: "wait until they end: they hold what their own queues own",
    Obstacle.COHORT_NOMINAL: "wait until they end: they hold what their own cohorts own",
    Obstacle.BELOW_NOMINAL: "wait until they end: they hold some of what their own queues own",
    Obstacle.SHARE: "wait until they end, or until its queue has less than theirs",
    Obstacle.POLICY: "wait until they end; the policy of its queue says what it may evict",
    Obstacle.MIN_RUNTIME: "wait until they have run for that long, as their queue grants it",
    Obstacle.COOLDOWN: "wait until that is over, or until they end",
    Obstacle.LOSS_BUDGET: "wait: what a team lost counts against its budget for an hour",
    Obstacle.PROMISED: "wait until those evictions are done",
    Obstacle.NO_ROOM: "wait until others end, or ask for fewer or smaller pods",
    Obstacle.QUOTA: "wait until work that uses that quota ends, or ask for less",
}
"""What would help, by what keeps others from being evicted."""


def delayed(delay_ms: int, until_ms: int) -> NoEviction:
    """It must wait before others are evicted for it."""
    return NoEviction(
        obstacle=Obstacle.DELAY,
        message=f"Others are evicted for it only {delay_ms // 1000} s after its submission.",
        retry_at_ms=until_ms,
    )


def fits_now(placement: Placement, search: VictimSearch) -> NoEviction:
    """It needs no eviction."""
    return NoEviction(
        obstacle=Obstacle.FITS,
        message="It fits without any eviction.",
        placement=placement,
        may_evict=search.screen.gpu_milli > 0,
    )


def plan_of(workload: Workload, search: VictimSearch, found: Found) -> EvictionPlan:
    """What was found, as a value."""
    return EvictionPlan(
        workload_id=workload.id,
        flavor=found.placement.flavor,
        victims=tuple(
            victim_of(
                search.occupant(name),
                ranks,
                found.rules[name],
                now_ms=search.now_ms,
                cost_gpu_ms=search.cost_gpu_ms(search.occupant(name), ranks),
            )
            for name, ranks in sorted(found.out.items())
        ),
        placement=found.placement,
        alternatives=(*_dearer(search, found), *_spared(search)),
    )


def refused(gang: Gang, failures: Sequence[tuple[str, VictimSearch]]) -> NoEviction:
    """Why nothing goes, by the flavor that came nearest."""
    if not failures:
        return NoEviction(obstacle=Obstacle.QUOTA, message="No flavor is permitted to it.")
    flavor, search = max(failures, key=lambda each: each[1].failure.pods)
    obstacle, message, evidence = _why(gang, search)
    spared = search.screen.spared_gpu_milli
    return NoEviction(
        obstacle=obstacle,
        message=f"{flavor}: {message}{_told(search)}",
        retry_at_ms=min(
            (at for _, each in failures if (at := each.screen.retry_at_ms)), default=0
        ),
        flavor=flavor,
        evidence={
            **evidence,
            "evictable_gpu_milli": search.screen.gpu_milli,
            **{f"spared_{each.name.lower()}_gpu_milli": spared[each] for each in spared},
        },
        alternatives=_spared(search),
    )


def _why(gang: Gang, search: VictimSearch) -> tuple[Obstacle, str, dict[str, int]]:
    spared, failure = search.screen.spared_gpu_milli, search.failure
    if not search.screen.gpu_milli:
        if not spared:
            return Obstacle.NOBODY, "nothing runs there", {}
        obstacle = max(spared, key=lambda each: (spared[each], each))
        return obstacle, "nothing there may be evicted for it", {}
    if failure.quota is not None:
        name = failure.quota.name
        return Obstacle.QUOTA, f"evictions do not free the quota that {name} lacks", {}
    if failure.demand is None:
        return Obstacle.NO_ROOM, "evictions that the rules allow make no room", {}
    needs = pod_needs(failure.demand, gang)
    message = (
        f"even with all gone that may go, {failure.pods} of {failure.demand.count} pods with "
        f"{needs} would find room in the best part, {failure.place}"
    )
    numbers = {"pods_needed": failure.demand.count, "best_part_pods_fit": failure.pods}
    return Obstacle.NO_ROOM, message, numbers


def _told(search: VictimSearch) -> str:
    spared = search.screen.spared_gpu_milli
    parts = [f"{spared[each] / GPU_MILLI:g} GPUs {SPARED[each]}" for each in sorted(spared)]
    return f"; {listing(parts)}." if parts else "."


def victim_of(
    occupant: Occupant, ranks: frozenset[int], rule: Rule, *, now_ms: int, cost_gpu_ms: int
) -> Victim:
    """What is told of a victim of which the pods of these `ranks` stop."""
    pods = tuple(pod for pod in occupant.placement.pods if pod.rank in ranks)
    kept = tuple(pod.rank for pod in occupant.placement.pods if pod.rank not in ranks)
    return Victim(
        workload_id=occupant.id,
        version=occupant.version,
        attempt=occupant.attempt,
        rule=rule,
        pods=pods,
        kept_ranks=kept,
        lost_gpu_ms=occupant.lost_gpu_ms(now_ms, gpu_milli_of(pods)),
        cost_gpu_ms=cost_gpu_ms,
    )


def _dearer(search: VictimSearch, found: Found) -> tuple[Alternative, ...]:
    return tuple(
        Alternative(
            why=f"costs {cost} GPU-ms instead of {found.cost_gpu_ms}"
            + (f", on node {node}" if node else ""),
            flavor=found.placement.flavor,
            victims=tuple(sorted(out)),
            lost_gpu_ms=sum(search.lost_gpu_ms(name, ranks) for name, ranks in out.items()),
            cost_gpu_ms=cost,
        )
        for out, cost, node in found.dearer[: search.alternatives_max]
    )


def _spared(search: VictimSearch) -> tuple[Alternative, ...]:
    spared = search.screen.spared_gpu_milli
    return tuple(
        Alternative(why=f"{spared[each] / GPU_MILLI:g} GPUs {SPARED[each]}", flavor=search.flavor)
        for each in sorted(spared)
    )
