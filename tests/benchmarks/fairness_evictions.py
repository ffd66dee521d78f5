"""Who goes for whom in a fairness world, as by the service preemption."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from shared.core.model.request import PlacementRequest
from shared.core.preemption.eligibility.rules import WHOLE_MS, EligibilityJudge
from shared.core.preemption.moves.moving import MovingState, choose_moves
from shared.core.preemption.victims.choose import (
    EvictionPlan,
    NoEviction,
    PreemptionRules,
    choose_victims,
)
from tests.benchmarks.fairness_fleet import Fleet
from tests.benchmarks.fairness_live import Class, Live
from tests.benchmarks.fairness_world import FLAVOR, World

REST_MS: Final = 60_000
"""A borrower for whom nobody goes is looked at again after this, or when a protection ends."""
MOVES_REST_MS: Final = 60_000
"""Moves are looked for no more often (services/preemption/preemptor_classes.py)."""
COOLDOWN_MS: Final = 300_000
NOBODY: Final = "NobodyMayBeAsked"

Retry = Callable[[Live, int], None]
"""A workload's class is to be looked at again at a time."""


class Evictions:
    """Looks for victims, and for moves where there are none."""

    def __init__(self, world: World, fleet: Fleet, retry: Retry, *, moves: bool) -> None:
        self._world, self._fleet, self._retry, self._moves = world, fleet, retry, moves
        self._cooldown: dict[str, int] = {}
        self._rests: dict[Class, int] = {}
        self._moves_due: dict[Class, int] = {}
        """When moves are looked for again."""

    def plan(
        self, live: Live, request: PlacementRequest, now_ms: int, kept: Collection[str]
    ) -> EvictionPlan | None:
        """Who goes for it now; `kept` are the nodes that it was promised."""
        if not self._due(live, now_ms):
            return None
        rules = PreemptionRules(cooldown_until_ms=self._cooldown, whole_ms=WHOLE_MS)
        fleet, answer = self._fleet, None
        if self._may_ask_somebody(live, rules, now_ms):
            answer = choose_victims(
                fleet.cluster, fleet.ledger, fleet.occupants, request, rules, now_ms=now_ms
            )
        if isinstance(answer, EvictionPlan):
            return answer
        moves = self._by_moves(live, request, rules, now_ms, kept)
        if moves is None:
            self._spared(live, answer, now_ms)
        return moves

    def forget(self, now_ms: int) -> None:
        """Whose cooldown is over."""
        self._cooldown = {one: at for one, at in self._cooldown.items() if at > now_ms}

    def stopped(self, workload_id: str, now_ms: int) -> None:
        """It cools down."""
        self._cooldown[workload_id] = now_ms + COOLDOWN_MS

    def rested(self, kind: Class) -> None:
        """A protection has ended."""
        self._rests.pop(kind, None)

    def _due(self, live: Live, now_ms: int) -> bool:
        """Whether victims are looked for: for borrowers not again at once, as in the services."""
        return live.owed_since is not None or self._rests.get(live.kind, 0) <= now_ms

    def _spared(self, live: Live, answer: NoEviction | None, now_ms: int) -> None:
        """Nobody goes for it now; when somebody may, it is looked at again."""
        if answer is None:
            live.obstacle = NOBODY
            return
        live.obstacle = answer.obstacle.value
        self._rests[live.kind] = now_ms + REST_MS
        if answer.retry_at_ms > now_ms:
            self._retry(live, answer.retry_at_ms)

    def _by_moves(
        self,
        live: Live,
        request: PlacementRequest,
        rules: PreemptionRules,
        now_ms: int,
        kept: Collection[str],
    ) -> EvictionPlan | None:
        """Others go on elsewhere for it; looked for no more often than by the service."""
        if not self._moves or self._moves_due.get(live.kind, 0) > now_ms:
            return None
        self._moves_due[live.kind] = now_ms + MOVES_REST_MS
        fleet = self._fleet
        state = MovingState(fleet.cluster, fleet.ledger, fleet.occupants, rules, now_ms)
        return choose_moves(state, request, promised=kept)

    def _may_ask_somebody(self, live: Live, rules: PreemptionRules, now_ms: int) -> bool:
        """The judge's word on sums alone, before the devices are looked at."""
        ledger, asked = self._fleet.ledger, live.pending.request
        judge = EligibilityJudge(ledger, rules, live.workload, asked, flavor=FLAVOR, now_ms=now_ms)
        return any(judge.terms(team.name).rule is not None for team in self._world.teams)
