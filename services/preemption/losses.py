"""What victims lose, held against the budget of their team for an hour, and how long they rest."""

from __future__ import annotations

from services.preemption.memory import COOLDOWN, LOSS, PreemptionMemory
from services.preemption.moving import HOUR_MS
from services.preemption.world import World
from shared.core.preemption.eligibility.rules import WHOLE_MS, PreemptionRules, policy_of
from shared.events import plans


class Losses:
    """Of one cell."""

    def __init__(self, memory: PreemptionMemory, world: World) -> None:
        self._memory = memory
        self._world = world

    def note(self, victim: plans.PlannedVictim, now_ms: int) -> None:
        """It is being evicted, and is left alone for the cooldown of its queue."""
        memory = self._memory
        offer = memory.offers.get(victim.workload_id)
        if offer is None:
            return
        team, queue = offer.workload.team, self._world.tree.node(offer.workload.queue)
        losses = [*self._recent(team, now_ms), (now_ms, victim.lost_gpu_ms)]
        memory.put(LOSS, memory.losses, team, losses)
        until_ms = now_ms + policy_of(queue).cooldown_seconds * 1000
        memory.put(COOLDOWN, memory.cooldowns, victim.workload_id, until_ms)

    def rules(self, now_ms: int) -> PreemptionRules:
        """What is in force now beside the policies of the queues."""
        return PreemptionRules(
            cooldown_until_ms=self._memory.cooldowns,
            loss_left_gpu_ms=self._left(now_ms),
            whole_ms=WHOLE_MS,
        )

    def _left(self, now_ms: int) -> dict[str, int]:
        """By team with a budget, what it may still lose; what is proposed counts."""
        left = {}
        for team, limit in self._memory.loss_limits.items():
            lost = sum(amount for _, amount in self._recent(team, now_ms))
            lost += sum(one.losses.get(team, 0) for one in self._memory.flights.values())
            left[team] = limit * 1000 - lost
        return left

    def _recent(self, team: str, now_ms: int) -> list[tuple[int, int]]:
        losses = self._memory.losses.get(team, ())
        return [one for one in losses if one[0] > now_ms - HOUR_MS]
