"""A week of a fairness world in virtual time, by the real core: nomination, order, place, victims.

As in the services, the nominator has its promises and the ledger has its own quota tree; what is
refused asks for evictions, and a plan is carried out at once: the place is the preemptor's, whose
pods start when the grace of the victims is over. A victim goes on from its last checkpoint.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from services.placement.heads import HEAD_AFTER_HOURS
from shared.core.amounts import Amount, amount
from shared.core.backfill.backfill import Backfill
from shared.core.backfill.promise import PROMISES_MAX, Waiter
from shared.core.cluster import Cluster
from shared.core.decision import Reason, Refusal
from shared.core.demand import gang_of
from shared.core.model import (
    Placement,
)
from shared.core.nomination.decision import Nominate, Withdraw
from shared.core.nomination.nominator import Nominator
from shared.core.nomination.pending import Pending
from shared.core.placement import place
from shared.core.preemption.choose import (
    EvictionPlan,
    NoEviction,
    Occupant,
    Occupants,
    Rules,
    choose_victims,
)
from shared.core.preemption.moving import State, choose_moves
from shared.core.preemption.plan import Moved
from shared.core.preemption.rules import WHOLE_MS, Judge
from shared.core.quota.attainable import Attainable
from shared.core.quota.debts import Debts, below
from shared.core.quota.fair_share import arrears, within_nominal
from shared.core.quota.tree import QuotaTree
from shared.core.quota.usage_history import GPU_SECOND, UsageHistory
from shared.core.request import PlacementRequest
from shared.core.timeline import Timeline
from shared.core.units import GPU_MILLI, UNLIMITED, Resources
from shared.core.waiting import WaitingIndex
from tests.benchmarks.fairness_documents import (
    CHECKPOINT_SECONDS,
    ROOT,
    documents,
    node_of,
    workload_of,
)
from tests.benchmarks.fairness_live import NOT_TRIED, Live
from tests.benchmarks.fairness_world import FLAVOR, GPUS, Job, World

GRACE_MS: Final = 30_000
ROOM: Final = frozenset({Reason.NO_CAPACITY, Reason.GANG_SHORT, Reason.TOPOLOGY})
REST_MS: Final = 60_000
"""A borrower for whom nobody goes is looked at again after this, or when a protection ends."""
MOVES_REST_MS: Final = 60_000
"""Moves are looked for no more often (services/preemption/lines.py)."""
OWED_REST_MS: Final = 8_000
"""What is owed is looked at again after this at the latest (services/preemption/lines.py)."""
NOBODY: Final = "NobodyMayBeAsked"
REVIEW_MS: Final = 60_000
"""Debts are told again after this, as by the quota service."""
EPOCH_MS: Final = 1_800_000_000_000

Class = tuple[str, Amount, int]
"""Team, request, and length by powers of eight."""
Order = Callable[["Run", str], tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a run differs in: the order across queues, and whether anybody is evicted."""

    order: Order
    reclaim: bool = True
    """Whether anybody is evicted, by the rules and the search of the core."""
    debts: bool = True
    """Whether what was had beyond one's part is paid back (core/quota/debts.py)."""
    moves: bool = True
    """Whether who may not be evicted goes on elsewhere for others (core/preemption/moving.py)."""
    promises: bool = True
    """Whether the first who need whole nodes are promised a start (core/backfill/backfill.py)."""


class Run:
    """One policy over one world."""

    def __init__(self, world: World, policy: Policy, seed: int) -> None:
        self.world, self.policy = world, policy
        self.now_ms = EPOCH_MS
        self.cluster = Cluster(seed=seed)
        for number in range(world.nodes):
            self.cluster.put_node(node_of(f"n{number:04}"))
        self.core, self.ledger = Nominator(), QuotaTree()
        for document in documents(world):
            self.core.apply(document)
            self.ledger.apply(document)
        self.history, self.debts = UsageHistory(), Debts()
        self.core.used = self.used
        self.index = WaitingIndex()
        self.index.rank = lambda one: policy.order(self, one)
        self.occupants, self.timeline = Occupants(), Timeline()
        self.backfill = Backfill(self.cluster, self.timeline)
        self._blocked: dict[Class, Live] = {}
        """By class of requests: who was refused for want of whole nodes."""
        self.live: dict[str, Live] = {}
        self.evictions = self.moves = self.lost_gpu_ms = 0
        self.waits_ms: list[int] = []
        self.spells: list[tuple[int, str]] = []
        """How long (ms) owed work waited, once for each time that it was, and what for."""
        self.running: dict[str, int] = {team.name: 0 for team in world.teams}
        self.waiting: dict[str, dict[str, Live]] = {team.name: {} for team in world.teams}
        self.wanted: dict[str, int] = dict(self.running)
        """GPUs of what waits."""
        self._events: list[tuple[int, int, str, str, int]] = []
        self._numbers = count()
        self._cooldown: dict[str, int] = {}
        self._retries: dict[Class, int] = {}
        """When victims of a class of requests may go, of those refused for the present."""
        self._rests: dict[Class, int] = {}
        self._moves_due: dict[Class, int] = {}
        """When moves are looked for again."""
        self._review_ms = 0

    def used(self, queue: str) -> int:
        """Use over time, in GPU-seconds."""
        return self.history.at(queue, self.now_ms) // GPU_SECOND

    # ── events ───────────────────────────────────────────────────────────────────────────────

    def play(self, until_ms: int, watch: Callable[[Run, int], None]) -> None:
        """Let everything happen that happens before `until_ms`; `watch` sees each interval."""
        for number, job in enumerate(self.world.jobs):
            self._at(EPOCH_MS + int(job.at * 1000), "arrives", str(number), 0)
        while self._events and self._events[0][0] < until_ms:
            at_ms = self._events[0][0]
            watch(self, at_ms - self.now_ms)
            self.now_ms = at_ms
            while self._events and self._events[0][0] == at_ms:
                _, _, kind, name, run = heapq.heappop(self._events)
                self._happen(kind, name, run)
            if self.policy.debts and self.now_ms >= self._review_ms:
                self._review()
            self._settle()
        watch(self, until_ms - self.now_ms)

    def _review(self) -> None:
        """Tell the core and the ledger the debts of all nodes, and go on counting."""
        self._review_ms = self.now_ms + REVIEW_MS
        root = self.ledger.node(ROOT)
        self.debts.review(self.ledger, self.core.gpu_milli_waiting(), self.now_ms)
        told = {node.name: self.debts.of(node, self.now_ms) for node in below(root)}
        self.core.set_debts(told)
        for name, debt in told.items():
            self.ledger.set_debt(name, debt)
        self.index.rewind()

    def _at(self, at_ms: int, kind: str, name: str, run: int) -> None:
        heapq.heappush(self._events, (at_ms, next(self._numbers), kind, name, run))

    def _happen(self, kind: str, name: str, run: int) -> None:
        if kind == "arrives":
            self._arrive(self.world.jobs[int(name)])
        elif kind == "ends" and (live := self.live.get(name)) and live.run == run:
            self._release(live, self.now_ms)
            self.core.forget(live.pending)
            del self.live[name]
            self._wake()
        elif kind == "retry":
            due = {key for key, at_ms in self._retries.items() if at_ms <= self.now_ms}
            self.index.wake(lambda one: self._class(self.live[one]) in due)
            for key in due:
                del self._retries[key]
                self._rests.pop(key, None)

    def _arrive(self, job: Job) -> None:
        workload = workload_of(job, self.now_ms)
        charge = (job.gpus * GPU_MILLI, 0, 0)
        pending = Pending(
            workload.id,
            team=job.team,
            queue=job.team,
            priority=0,
            submitted_at_ms=self.now_ms,
            request=charge,
        )
        live = Live(job, pending, workload, int(job.seconds * 1000), self.now_ms)
        self.live[workload.id] = live
        self._wait(live)
        self.core.enter(pending)

    @staticmethod
    def _class(live: Live) -> Class:
        """Equal requests of about equal length, as in the services: pins go by the end."""
        return live.job.team, live.pending.request, (live.left_ms // 1000).bit_length() // 3

    def _wait(self, live: Live) -> None:
        self.waiting[live.job.team][live.workload.id] = live
        self.wanted[live.job.team] += live.job.gpus

    def _wake(self) -> None:
        self.index.rewind()
        self.index.wake(lambda _: True)

    # ── decisions ────────────────────────────────────────────────────────────────────────────

    def _settle(self) -> None:
        heads = set[str]()
        while True:
            self.core.settle(announce=False)  # it hears of each end at once
            for decision in self.core.take():
                if isinstance(decision, Nominate):
                    pending = decision.pending
                    key = self._class(self.live[pending.id])
                    self.index.add(pending.id, key, pending.key)
                    if self.index.resting(key):
                        self.core.refused(pending, pending.nomination)
                elif isinstance(decision, Withdraw):
                    self.index.remove(decision.pending.id)
                    self._unpromise(decision.pending.id)
            if (workload_id := self._due_head(heads) or self.index.pop()) is None:
                if not self.core.unsettled and not self._promise():
                    return
                continue
            self._try(self.live[workload_id])

    def _due_head(self, tried: set[str]) -> str | None:
        """Whose promised start has come, taken from who waits, each once: before its equals."""
        first = self.index.first()
        for name, promise in self.backfill.promises.items():
            waits = promise.start_ms <= self.now_ms and name in self.index and name not in tried
            if waits and (first is None or self._rank(name) <= self._rank(first)):
                tried.add(name)
                self.index.remove(name)
                return name
        return None

    def _rank(self, workload_id: str) -> tuple[Any, ...]:
        return self.policy.order(self, workload_id)

    def _unpromise(self, workload_id: str) -> None:
        """It starts or waits for room no more."""
        if workload_id in self.backfill.promises and self.backfill.drop(workload_id):
            self._wake()

    def _try(self, live: Live) -> None:
        queue = self.ledger.node(live.job.team)
        if within_nominal(queue, FLAVOR, live.pending.request) and live.owed_since is None:
            live.owed_since = self.now_ms
        request = self._request(live)
        answer = place(self.cluster, request)
        if isinstance(answer, Refusal) and self.policy.reclaim and self._reclaim(live, request):
            return
        if isinstance(answer, Refusal) and live.owed_since is not None and self.backfill.promises:
            request = self._request(live, self._borrows)
            answer = place(self.cluster, request)
            refused = isinstance(answer, Refusal)
            if refused and self.policy.reclaim and self._reclaim(live, request):
                return
        if not isinstance(answer, Refusal):
            self._start(live, answer, self.now_ms)
            return
        if self.policy.promises and live.job.gpus >= GPUS and answer.reason in ROOM:
            self._blocked.setdefault(self._class(live), live)
        self._refuse(live)

    def _refuse(self, live: Live) -> None:
        """Its class rests, and all of it know; what is owed is looked at again by the service."""
        key = self._class(live)
        self.index.rest(live.pending.id, key, live.pending.key)
        for workload_id in self.index.behind(key):
            pending = self.live[workload_id].pending
            self.core.refused(pending, pending.nomination)
        if live.owed_since is not None and self.policy.reclaim:
            self._retry(live, self.now_ms + OWED_REST_MS)

    def _request(
        self, live: Live, yields: Callable[[str], bool] | None = None
    ) -> PlacementRequest:
        left = self.ledger.node(live.job.team).available(FLAVOR)
        headroom = Resources(
            gpu_milli=max(0, left[0]), cpu_milli=max(0, left[1]), memory_mib=max(0, left[2])
        )
        return PlacementRequest(
            workload=live.workload,
            flavors=(FLAVOR,),
            headroom={FLAVOR: headroom},
            pins=self.backfill.pins_for(live.workload.id, self.now_ms + live.left_ms, yields),
        )

    def _borrows(self, workload_id: str) -> bool:
        pending = self.live[workload_id].pending
        return not within_nominal(self.ledger.node(pending.queue), FLAVOR, pending.request)

    def _is_owed(self, workload_id: str) -> bool:
        return not self._borrows(workload_id)

    def _promise(self) -> bool:
        """Promise the first who need whole nodes a start; whether nodes are freer after it."""
        blocked = [live for live in self._blocked.values() if live.placement is None]
        self._blocked = {}
        if not blocked and not self.backfill.promises:
            return False
        can_have = Attainable()
        first = heapq.nsmallest(
            PROMISES_MAX, (one for one in blocked if self._fits(one, can_have)), key=self._turn
        )
        chosen = {live.workload.id for live in first}
        standing = [self.live[one] for one in self.backfill.promises if one not in chosen]
        kept = [one for one in standing if self._fits(one, can_have)]
        waiters = [
            Waiter(
                workload_id=live.workload.id,
                gang=gang_of(live.workload),
                flavors=(FLAVOR,),
                length_ms=live.left_ms,
            )
            for live in (*kept, *first)
        ]
        if loosened := self.backfill.plan(waiters[:PROMISES_MAX], self.now_ms):
            self.index.wake(lambda _: True)
        return bool(loosened)

    def _fits(self, live: Live, can_have: Attainable) -> bool:
        return can_have.fits(self.ledger.node(live.job.team), FLAVOR, live.pending.request)

    def _turn(self, live: Live) -> tuple[Any, ...]:
        """Who waits longest of those who wait too long, else who is owed most, and age."""
        aged = self.now_ms - live.asked_ms > HEAD_AFTER_HOURS * 3_600_000
        queue = self.ledger.node(live.job.team)
        owed = () if aged else arrears(queue, (FLAVOR,), live.pending.request)
        return (not aged, owed, live.pending.key, live.workload.id)

    def _reclaim(self, live: Live, request: PlacementRequest) -> bool:
        rules = Rules(cooldown_until_ms=self._cooldown, whole_ms=WHOLE_MS)
        if not self._due(live):
            return False
        plan: EvictionPlan | NoEviction | None = None
        if self._may_ask_somebody(live, rules):
            plan = choose_victims(
                self.cluster, self.ledger, self.occupants, request, rules, now_ms=self.now_ms
            )
        if not isinstance(plan, EvictionPlan):
            moves = self._by_moves(live, request, rules)
            if moves is None:
                self._spared(live, plan)
                return False
            plan = moves
        self._carry_out(live, plan)
        return True

    def _spared(self, live: Live, answer: NoEviction | None) -> None:
        """Nobody goes for it now; when somebody may, it is looked at again."""
        if answer is None:
            live.obstacle = NOBODY
            return
        live.obstacle = answer.obstacle.value
        self._rests[self._class(live)] = self.now_ms + REST_MS
        if answer.retry_at_ms > self.now_ms:
            self._retry(live, answer.retry_at_ms)

    def _by_moves(
        self, live: Live, request: PlacementRequest, rules: Rules
    ) -> EvictionPlan | None:
        """Others go on elsewhere for it; looked for no more often than by the service."""
        key = self._class(live)
        if not self.policy.moves or self._moves_due.get(key, 0) > self.now_ms:
            return None
        self._moves_due[key] = self.now_ms + MOVES_REST_MS
        state = State(self.cluster, self.ledger, self.occupants, rules, self.now_ms)
        promise = self.backfill.promises.get(live.workload.id)
        return choose_moves(state, request, promised=promise.nodes if promise else ())

    def _due(self, live: Live) -> bool:
        """Whether victims are looked for: for borrowers not again at once, as in the services."""
        return live.owed_since is not None or self._rests.get(self._class(live), 0) <= self.now_ms

    def _may_ask_somebody(self, live: Live, rules: Rules) -> bool:
        """The judge's word on sums alone, before the devices are looked at."""
        judge = Judge(
            self.ledger,
            rules,
            live.workload,
            live.pending.request,
            flavor=FLAVOR,
            now_ms=self.now_ms,
        )
        return any(judge.terms(team.name).rule is not None for team in self.world.teams)

    def _retry(self, live: Live, at_ms: int) -> None:
        """Victims of its class may go from then on."""
        key = self._class(live)
        if at_ms < self._retries.get(key, UNLIMITED):
            self._retries[key] = at_ms
            self._at(at_ms, "retry", live.pending.id, 0)

    def _carry_out(self, live: Live, plan: EvictionPlan) -> None:
        stops_ms = self.now_ms + GRACE_MS
        self._cooldown = {one: at for one, at in self._cooldown.items() if at > self.now_ms}
        for victim in plan.victims:
            gone = self._stop(victim.workload_id, stops_ms)
            self.core.released(gone.pending)
            self.core.enter(gone.pending)
            self._wait(gone)
        movers = [(self._stop(one.workload_id, stops_ms), one) for one in plan.moves]
        for live_mover, moved in movers:
            self._go_on(live_mover, moved, stops_ms)
        self.index.wake(self._is_owed)
        self._start(live, plan.placement, stops_ms)

    def _stop(self, workload_id: str, stops_ms: int) -> Live:
        """It loses what it did since its last checkpoint."""
        gone = self.live[workload_id]
        ran_ms = stops_ms - gone.started_ms
        saved_ms = ran_ms // (CHECKPOINT_SECONDS * 1000) * CHECKPOINT_SECONDS * 1000
        self.evictions += 1
        self.lost_gpu_ms += (ran_ms - saved_ms) * gone.job.gpus
        gone.left_ms -= saved_ms
        self._release(gone, stops_ms)
        self._cooldown[workload_id] = self.now_ms + 300_000
        gone.asked_ms = self.now_ms
        return gone

    def _go_on(self, live: Live, moved: Moved, starts_ms: int) -> None:
        """At its new place, its quota kept."""
        self.moves += 1
        spec = live.workload.spec
        self.cluster.charge(live.job.team, moved.placement.pods, spec.pod_sets)
        self._hold(live, moved.placement, starts_ms)

    def _start(self, live: Live, placement: Placement, starts_ms: int) -> None:
        """Charge it; its pods run from `starts_ms` on."""
        team, job = live.job.team, live.job
        if starts_ms > self.now_ms:
            self.cluster.charge(team, placement.pods, live.workload.spec.pod_sets)
        self._hold(live, placement, starts_ms)
        self.core.placed(live.pending, FLAVOR, amount(placement.charge), live.run)
        self._unpromise(live.workload.id)
        del self.waiting[team][live.workload.id]
        self.wanted[team] -= job.gpus
        self.waits_ms.append(starts_ms - live.asked_ms)
        self.owed_no_more(live, starts_ms)

    def _hold(self, live: Live, placement: Placement, starts_ms: int) -> None:
        """It holds `placement`, and runs there from `starts_ms` to its end."""
        team, job = live.job.team, live.job
        live.placement, live.started_ms = placement, starts_ms
        live.run += 1
        self.ledger.charge(team, FLAVOR, amount(placement.charge))
        self.history.change(team, starts_ms, job.gpus * GPU_MILLI)
        self.running[team] += job.gpus
        self.timeline.begin(
            live.workload.id, {pod.node for pod in placement.pods}, (starts_ms, live.left_ms)
        )
        self.occupants.put(
            Occupant(
                workload=live.workload,
                placement=placement,
                priority=0,
                attempt=live.run,
                version=live.run,
                started_at_ms=starts_ms,
            )
        )
        self._at(starts_ms + live.left_ms, "ends", live.workload.id, live.run)

    def owed_no_more(self, live: Live, at_ms: int) -> None:
        """It starts, or its team has its own by other work."""
        if live.owed_since is not None:
            self.spells.append((at_ms - live.owed_since, live.obstacle))
        live.owed_since, live.obstacle = None, NOT_TRIED

    def _release(self, live: Live, stops_ms: int) -> None:
        assert live.placement is not None
        team = live.job.team
        self.cluster.release(team, live.placement.pods, live.workload.spec.pod_sets)
        self.ledger.charge(team, FLAVOR, amount(live.placement.charge), -1)
        self.history.change(team, max(stops_ms, live.started_ms), -live.job.gpus * GPU_MILLI)
        self.running[team] -= live.job.gpus
        self.occupants.remove(live.workload.id)
        self.timeline.finish(live.workload.id, {pod.node for pod in live.placement.pods})
        live.placement = None
        live.run += 1
