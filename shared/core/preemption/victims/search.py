"""The search for victims in one flavor: what victims/choose.py tells, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from shared.core.model.amounts import amount
from shared.core.model.demand import Gang
from shared.core.model.nouns import Placement, PodPlacement
from shared.core.model.units import UNBOUNDED
from shared.core.placement.feasibility import permitted
from shared.core.placement.gang import attempt, unlike
from shared.core.placement.place import placement_of
from shared.core.preemption.eligibility.occupant import Occupant, gpu_milli_of
from shared.core.preemption.eligibility.occupants import Occupants
from shared.core.preemption.eligibility.plan import Rule, SearchLimits
from shared.core.preemption.eligibility.rules import EligibilityJudge
from shared.core.preemption.eligibility.screen import Screen
from shared.core.preemption.victims.counts import Counts, Dearer, Failure
from shared.core.preemption.victims.simulated_removal import (
    Out,
    Scope,
    SimulatedRemoval,
    least_gone,
)
from shared.core.scoring import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What leaves, what it costs, and where the gang goes then."""

    out: Out
    rules: dict[str, Rule]
    cost_gpu_ms: int
    placement: Placement
    dearer: Dearer = ()


class VictimSearch:
    """One preemptor in one flavor. The tree and the cluster are as they were after each call."""

    def __init__(
        self,
        cluster: Cluster,
        occupants: Occupants,
        gang: Gang,
        judge: EligibilityJudge,
        limits: SearchLimits,
    ) -> None:
        self._cluster = cluster
        self._occupants = occupants
        self._gang = gang
        self._judge = judge
        self._trials_left = limits.trials_max
        self.alternatives_max = limits.alternatives_max
        self.screen = Screen(occupants, judge)
        self.failure = Failure()
        self._scope = Scope(cluster, occupants, judge, self.screen, gang.team)
        self._kinds = {
            demand.pod_set: sum(permitted(cluster, gang, demand, judge.flavor), ())
            for demand in gang.demands
        }

    @property
    def now_ms(self) -> int:
        """The time of the decision."""
        return self._judge.now_ms

    @property
    def flavor(self) -> str:
        """Where it is tried."""
        return self._judge.flavor

    def occupant(self, workload_id: str) -> Occupant:
        """What it is."""
        return self._occupants.tenants.running[workload_id]

    def cost_gpu_ms(self, occupant: Occupant, ranks: frozenset[int]) -> int:
        """What it costs that these pods of it go."""
        return SimulatedRemoval(self._scope).cost(occupant, ranks)

    def lost_gpu_ms(self, workload_id: str, ranks: frozenset[int]) -> int:
        """The work that it loses then."""
        occupant = self.occupant(workload_id)
        pods = _pods(occupant, ranks)
        return occupant.lost_gpu_ms(self.now_ms, gpu_milli_of(pods))

    def fits(self) -> Placement | None:
        """Where the gang would go now, by devices and by quota; nothing stays charged."""
        if self._judge.short(self._judge.charge) is not None:
            return None
        self._trials_left -= 1
        statement = attempt(self._cluster, self._gang, self._judge.flavor, UNBOUNDED)
        if statement is None:
            return None
        placement = placement_of(self._judge.flavor, statement)
        statement.rollback()
        return placement if self._judge.short(amount(placement.charge)) is None else None

    def find(self) -> Found | None:
        """The cheapest that was found; None with `failure` told."""
        if not all(self._kinds.values()) or not self.screen.allowed.any():
            return None
        for scope in self._scopes():
            best: Found | None = None
            for cost, out, dearer in Counts(
                scope, self._gang, self._kinds, self.failure
            ).choices():
                # The first is the cheapest by counting; quota may ask for more of it.
                if best is None or cost < best.cost_gpu_ms:
                    found = self._carry_out(scope, out, dearer)
                    if found is not None and (
                        best is None or found.cost_gpu_ms < best.cost_gpu_ms
                    ):
                        best = found
            if best is None and (unlike(self._gang) or self._gang.shaped):
                best = self._from_all(scope)
            if best is not None:
                return best
        return None

    def _scopes(self) -> Iterator[Scope]:
        """Where quota is short, first only those that free it by going."""
        short = self._judge.short(self._judge.charge)
        if short is not None:
            allowed = self.screen.allowed
            self.screen.allowed = allowed & self.screen.below(short[0])
            try:
                yield self._scope
            finally:
                self.screen.allowed = allowed
        yield self._scope

    # ── trying it on the cluster ──

    def _carry_out(self, scope: Scope, out: Out, dearer: Dearer) -> Found | None:
        """Let them go in fact, and more where quota is short; trim; and take it all back."""
        leavers = SimulatedRemoval(scope)
        for name, ranks in out.items():
            self._stop(leavers, self._occupants.tenants.running[name], ranks)
        try:
            if not self._free_quota(leavers):
                return None
            placement = self.fits()
            if placement is None:
                return None
            placement = self._trim(leavers, placement)
            rules = leavers.settle()
            if rules is None:
                return None
            return Found(
                out=dict(leavers.out),
                rules=rules,
                cost_gpu_ms=leavers.total_cost,
                placement=placement,
                dearer=dearer,
            )
        finally:
            for name in list(leavers.out):
                self._stop(leavers, self._occupants.tenants.running[name], frozenset())

    def _from_all(self, scope: Scope) -> Found | None:
        """Where counting finds no way (unlike pods, slices): all go, and most come back."""
        running = self._occupants.tenants.running
        leavers = SimulatedRemoval(scope)
        for name in self.screen.ids():
            every = frozenset(pod.rank for pod in running[name].placement.pods)
            if leavers.admits(running[name], every):
                self._stop(leavers, running[name], every)
        placement = self.fits()
        out = dict(leavers.out)
        for name in out:
            self._stop(leavers, running[name], frozenset())
        if placement is None:
            return None
        nodes = {pod.node for pod in placement.pods}
        needed = {name: ranks for name, ranks in out.items() if running[name].nodes & nodes}
        return self._carry_out(scope, needed, ())

    def _free_quota(self, leavers: SimulatedRemoval) -> bool:
        """Let the cheapest go until quota allows the gang; whether it does."""
        tried: set[str] = set()
        while (short := self._judge.short(self._judge.charge)) is not None:
            name = self.screen.cheapest_below(*short, tried)
            if name is None:
                self.failure.quota = short[0]
                return False
            tried.add(name)
            occupant = self._occupants.tenants.running[name]
            every = frozenset(pod.rank for pod in occupant.placement.pods)
            if leavers.out.get(name) != every and leavers.admits(occupant, every):
                self._stop(leavers, occupant, every)
        return True

    def _trim(self, leavers: SimulatedRemoval, placement: Placement) -> Placement:
        """Victims without which it fits as well, the dearest first; as far as the limit allows.

        A victim stays a victim if the others may not go without it.
        """
        running = self._occupants.tenants.running
        order = sorted(
            (running[name] for name in leavers.out),
            key=lambda each: (-leavers.cost(each, leavers.out[each.id]), each.id),
        )
        sizes_of = self._occupants.sizes_of
        if len(order) == 1 and not sizes_of(order[0].id):
            return placement
        lawful = leavers.settle() is not None
        for occupant in order:
            stop = partial(self._fits_without, leavers, occupant, lawful=lawful)
            out = leavers.out[occupant.id]
            placement = least_gone(occupant, sizes_of(occupant.id), out, stop) or placement
        return placement

    def _fits_without(
        self, leavers: SimulatedRemoval, occupant: Occupant, ranks: frozenset[int], *, lawful: bool
    ) -> Placement | None:
        """Let exactly `ranks` of it be gone if the gang fits then too, and the others may go."""
        if self._trials_left <= 0:
            return None
        before = leavers.out[occupant.id]
        self._stop(leavers, occupant, ranks)
        placement = self.fits()
        if placement is None or (lawful and leavers.settle() is None):
            self._stop(leavers, occupant, before)
            return None
        return placement

    def _stop(self, leavers: SimulatedRemoval, occupant: Occupant, ranks: frozenset[int]) -> None:
        """Let exactly `ranks` of it be gone, from the cluster and for quota."""
        before = leavers.out.get(occupant.id, frozenset())
        team, pod_sets = occupant.team, occupant.workload.spec.pod_sets
        self._cluster.release(team, _pods(occupant, ranks - before), pod_sets)
        self._cluster.charge(team, _pods(occupant, before - ranks), pod_sets)
        leavers.set(occupant, ranks)


def _pods(occupant: Occupant, ranks: frozenset[int]) -> list[PodPlacement]:
    return [pod for pod in occupant.placement.pods if pod.rank in ranks]
