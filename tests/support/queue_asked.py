"""The quota service against the reference: what it hears, what it says, what it then knows."""

from types import SimpleNamespace
from typing import Any

from services.quota.handler import QuotaHandler
from shared.core.model.charges import least_amount
from shared.core.queueing.nomination.flavor_choice import FlavorKind, choice_of
from shared.core.quota.budget import THRESHOLDS
from shared.events import organisation, quotas, workloads
from shared.events.deadlines import DeadlinePassed
from shared.events.quota_documents import document_of
from tests.support.queue_history import COHORTS, FLAVORS, HALF_LIFE_MS, PRICE, QUEUES
from tests.support.quota_reference import UNITS
from tests.support.reference_queue import OPEN, ReferenceQueue

ANSWER_WAIT_MS = 5_000
SILENCE_MS = 120_000


class Asked:
    """A handler and its reference, which hears the same and is held against all that it says."""

    def __init__(self, window):
        self.handler = QuotaHandler(half_life_ms=HALF_LIFE_MS)
        self.core = self.handler.memory.core
        self.window = window or (self.core.window.open_max, self.core.window.open_each)
        self.core.window.open_max, self.core.window.open_each = self.window
        self.reference = ReferenceQueue(HALF_LIFE_MS)
        self.reached_ms = self.reached_at_ms = 0
        self.expected, self.passed_over, self.displaced = set(), {}, None
        self.hearers: dict[type, Any] = {
            workloads.WorkloadQueued: self.queued,
            workloads.CancelWorkload: lambda work, _: self.leaves(work, "cancelled"),
            workloads.HoldWorkload: lambda work, _: self.leaves(work, "hold asked"),
            workloads.ReleaseWorkload: lambda work, _: self.enters(work, "hold asked"),
            workloads.WorkloadReprioritised: self.reprioritised,
            workloads.WorkloadPlaced: self.placed,
            workloads.PlacementRefused: self.refused,
            workloads.WorkloadRequeued: self.back,
            workloads.WorkloadReleased: self.back,
            workloads.WorkloadHeld: self.held,
            workloads.WorkloadSucceeded: self.over,
            workloads.WorkloadFailed: self.over,
            workloads.WorkloadCancelled: self.over,
            organisation.FlavorApplied: self.flavor,
            organisation.TeamApplied: self.team,
            DeadlinePassed: self.deadline,
        }
        self.sayers: dict[type, Any] = {
            quotas.WorkloadNominated: self.nominated,
            quotas.NominationWithdrawn: self.withdrawn,
            quotas.QueueUsageTold: self.usage_told,
            quotas.DebtsTold: lambda fact: self.reference.debts.update(fact.debts),
            quotas.BudgetWarned: self.warned,
        }

    def decide(self, messages, now_ms):
        """One batch, and what came out; what is said about a message follows what it changes."""
        self.reference.now_ms = now_ms
        outcome = self.handler.decide(messages, now_ms)
        self.passed_over = {}
        for message in messages:
            said = [one.payload for one in outcome.emits if one.cause is message]
            self.hear(message.event.payload, said)
            for fact in said:
                self.sayers.get(type(fact), lambda fact: None)(fact)
            assert message is messages[-1] or not self.expected, "taken back at once"
        assert not self.expected, "an open nomination was not taken back"
        assert self.displaced is None, "nobody came in the place of who was displaced"
        self.check_records()
        self.check_sums()
        if not self.core.unsettled:
            self.check_settled()
        return [one.payload for one in outcome.emits]

    # ── what it hears ──

    def hear(self, payload, said):
        works = self.reference.works
        work = works.get(getattr(payload, "workload_id", ""))
        of_work = hasattr(payload, "workload_id")
        if any(isinstance(one, quotas.QuotaChanged) for one in said):
            self.reference.apply(document_of(payload))
        elif work is not None or not of_work:
            self.hearers.get(type(payload), lambda work, payload: None)(work, payload)

    def queued(self, _, fact):
        one = fact.workload
        self.reference.works[one.id] = SimpleNamespace(
            id=one.id,
            queue=one.queue,
            team=one.team,
            priority=one.priority,
            at_ms=one.submitted_at_ms,
            request=least_amount(one.spec),
            choice=choice_of(one.spec),
            phase="waiting",
            flavor="",
            hopes_in="",
            announced=False,
            charge=(0, 0, 0),
            offered=(),
            nomination=0,
            since_ms=0,
            kept_by=set(),
        )

    def flavor(self, _, payload):
        self.reference.kinds[payload.name] = FlavorKind(payload.products, payload.spot)

    def team(self, _, payload):
        self.reference.budgets[payload.name] = payload.budget

    def deadline(self, _, payload):
        if payload.kind == "answers":
            for one in self.reference.works.values():
                if self.answer_due_ms(one.since_ms) <= self.reference.now_ms:
                    self.answered(one)

    def answer_due_ms(self, since_ms):
        """Five seconds, if placement has come so far that it could have answered."""
        if since_ms > self.reached_ms:
            return since_ms + SILENCE_MS
        told_ms = self.reached_at_ms if since_ms == self.reached_ms else since_ms
        return told_ms + ANSWER_WAIT_MS

    def placement_reached(self, work):
        if work.phase == "offered" and work.since_ms > self.reached_ms:
            self.reached_ms, self.reached_at_ms = work.since_ms, self.reference.now_ms

    def reprioritised(self, work, fact):
        if fact.priority != work.priority and (work.phase in OPEN or work.announced):
            self.take_back(work, "waiting")
            self.expected.add(work.id)
        work.priority = fact.priority

    def placed(self, work, fact):
        self.placement_reached(work)
        self.take_back(work, "placed")
        charge = fact.placement.charge
        work.flavor = fact.placement.flavor
        work.charge = (charge.gpu_milli, charge.cpu_milli, charge.memory_mib)
        self.reference.charge(work.queue, work.flavor, work.charge)
        work.period = [work.queue, work.team, work.charge[0], PRICE, fact.placed_at_ms, None]
        self.reference.periods.append(work.period)

    def refused(self, work, fact):
        if fact.nomination == work.nomination:
            self.placement_reached(work)
            self.answered(work)

    def back(self, work, fact):
        self.give_back(work, fact)
        self.enters(work, "held")

    def held(self, work, fact):
        self.give_back(work, fact)
        self.leaves(work, "held")

    def over(self, work, fact):
        self.give_back(work, fact)
        self.take_back(work, "gone")
        del self.reference.works[work.id]

    def answered(self, work):
        """Its nomination stays open, and no longer counts as use."""
        if work.phase == "offered":
            work.phase = "refused"
            self.uncount(work)

    def uncount(self, work):
        if work.flavor:
            self.reference.promise(work.queue, work.flavor, work.request, -1)
            work.flavor = ""

    def take_back(self, work, phase):
        """Its nomination, if it has one, is over."""
        if work.phase in OPEN:
            self.uncount(work)
            work.hopes_in = ""
        work.phase, work.announced = phase, False

    def give_back(self, work, fact):
        if work.phase == "placed":
            self.reference.charge(work.queue, work.flavor, work.charge, -1)
            work.phase, work.flavor, work.charge = "idle", "", (0, 0, 0)
            work.period[-1] = fact.released_at_ms
            self.expect_next(work.queue)

    def expect_next(self, queue):
        """Placement tries who is announced and finds room within what his queue owns."""
        reference = self.reference
        told = [one for one in self.waiting(queue) if one.announced]
        for work in sorted(told, key=key):
            flavor = reference.own_room(work)
            if flavor:
                work.announced, work.phase, work.flavor = False, "offered", flavor
                reference.promise(queue, flavor, work.request)
                work.since_ms = reference.now_ms

    def enters(self, work, kept_by):
        work.kept_by.discard(kept_by)
        if work.phase == "idle" and not work.kept_by:
            work.phase = "waiting"

    def leaves(self, work, kept_by):
        work.kept_by.add(kept_by)
        if work.phase in OPEN or work.announced:
            self.expected.add(work.id)
        if work.phase != "placed":
            self.take_back(work, "idle")

    # ── what it says ──

    def usage_told(self, fact):
        assert fact.gpu_seconds == self.reference.used_over_time(fact.queue, fact.at_ms)

    def warned(self, fact):
        assert fact.threshold_percent in THRESHOLDS
        assert self.reference.percent(fact.team) >= fact.threshold_percent

    def withdrawn(self, fact):
        work = self.reference.works[fact.workload_id]
        if work.id in self.expected:
            self.expected.discard(work.id)
            return
        if work.announced:
            work.announced = False
        elif self.stands(work):
            assert self.may_be_displaced(work), f"{work.id} is taken back without a reason"
            self.displaced = work
        else:
            self.take_back(work, "waiting")

    def nominated(self, fact):
        """It was the first of its queue that could go; who was before it elsewhere is noted.

        Whom it displaces is there until it is judged: were he gone before, his hope might have
        been the reason for its own, and he would be nominated again.
        """
        reference, work = self.reference, self.reference.works[fact.workload.id]
        if fact.next_of_own:
            self.announced(work, fact)
            return
        displaced, self.displaced = self.displaced, None
        assert work.phase == "waiting"
        work.announced = False
        assert self.may_go(work)
        assert (displaced.queue == work.queue) if displaced else not self.window_full(work.queue)
        work.offered = self.rules(work)
        told = tuple(one.flavor for one in fact.flavors)
        assert (told, fact.strict, fact.within_nominal) == work.offered
        flavor = reference.room(work)
        by_eviction = fact.flavors[0].needs_eviction
        assert by_eviction == (not flavor), f"{work.id} has room in {flavor or 'none'}"
        self.check_turn(work, anywhere=not by_eviction and not displaced)
        if flavor:
            work.flavor = flavor
            reference.promise(work.queue, flavor, work.request)
        else:
            work.hopes_in = reference.hope(work)
            assert work.hopes_in, f"{work.id} has no hope"
        if displaced:
            self.take_back(displaced, "waiting")
        work.phase, work.nomination, work.since_ms = "offered", fact.nomination, reference.now_ms

    def announced(self, work, fact):
        """It waits on; once all is settled it is held against the reference who is announced."""
        assert work.phase == "waiting"
        assert not work.announced, "it is announced already"
        work.announced, work.nomination, work.offered = True, fact.nomination, self.rules(work)
        told = tuple(one.flavor for one in fact.flavors)
        assert (told, fact.strict, fact.within_nominal) == work.offered

    def check_turn(self, work, *, anywhere):
        """Nobody of its queue was before it; `anywhere`: nor of its tree, unless he goes too.

        The turn of a queue is that of its first, whatever those behind him are owed.
        """
        mine, root = self.order(work), self.reference.path(work.queue)[-1]
        for one in filter(self.reference.room, self.able(work.queue)):
            assert key(work) <= key(one), f"{work.id} before {one.id} of its queue"
        others = [one for one in QUEUES if anywhere and one != work.queue]
        for queue in (one for one in others if self.reference.path(one)[-1] == root):
            first = min(self.able(queue), key=key, default=None)
            if first and self.reference.room(first) and self.order(first) < mine:
                self.passed_over[first.id] = work.id

    def able(self, queue):
        """Who of the queue may go and has room, or hope of it."""
        may_go = [one for one in self.waiting(queue) if self.may_go(one)]
        return [one for one in may_go if self.reference.room(one) or self.reference.hope(one)]

    # ── what follows from the rules of now ──

    def shut(self, queue):
        document = self.reference.documents.get(queue)
        return document is not None and (document.held or document.draining)

    def rules(self, work):
        document = self.reference.document(work)
        only_nominal = self.reference.owned_only(work)
        strict = document is not None and document.strict
        return self.reference.permitted(work), strict, only_nominal

    def stands(self, work):
        """Whether its open nomination is what it would be given now."""
        return work.offered == self.rules(work) and not self.shut(work.queue)

    def opened(self, queue=None):
        works = self.reference.works.values()
        return [one for one in works if one.phase in OPEN and queue in (None, one.queue)]

    def waiting(self, queue=None):
        works = self.reference.works.values()
        return [one for one in works if one.phase == "waiting" and queue in (None, one.queue)]

    def window_full(self, queue):
        most, each = self.window
        return len(self.opened()) >= most and len(self.opened(queue)) >= each

    def may_be_displaced(self, work):
        """It was refused, the window is full, and somebody before it in its queue may go."""
        before = any(key(one) < key(work) for one in self.able(work.queue))
        return self.window_full(work.queue) and work.phase == "refused" and before

    def may_go(self, work):
        """Whether the rules let it go now if it has room, or hope for it."""
        document = self.reference.document(work)
        if document is None or self.shut(work.queue):
            return False
        if document.strict and key(work) != min(map(key, self.waiting(work.queue))):
            return False
        later = [one for one in self.opened(work.queue) if one.phase == "refused"]
        return not self.window_full(work.queue) or any(key(one) > key(work) for one in later)

    def order(self, work):
        used = self.reference.used_over_time(work.queue, self.reference.now_ms)
        return self.reference.order(work, self.reference.permitted(work), used)

    # ── what it knows ──

    def check_records(self):
        alive = self.handler.memory.records.alive
        assert set(alive) == set(self.reference.works)
        for work in self.reference.works.values():
            pending = alive[work.id]
            for field in ("phase", "flavor", "hopes_in", "priority", "charge"):
                assert getattr(pending, field) == getattr(work, field), (work.id, field)
            assert (work.id in self.core.line(work.queue).announced) == work.announced

    def check_sums(self):
        for name in (*QUEUES, *COHORTS):
            node = self.core.tree.node(name)
            for place in ((name, flavor, unit) for flavor in FLAVORS for unit in UNITS):
                _, flavor, unit = place
                assert node.charged(flavor)[unit] == self.reference.used(*place, False), place
                assert node.taken(flavor)[unit] == self.reference.used(*place), place

    def check_settled(self):
        """Nobody waits who could go, or whose turn another took; what is open is as it must be."""
        for work in self.waiting():
            could = self.may_go(work) and self.reference.room(work)
            assert not could, f"{work.id} could go"
            other = self.passed_over.get(work.id)
            assert other is None, f"{other} took the turn of {work.id}"
        for work in self.opened():
            assert self.stands(work), f"{work.id} is open under other rules"
        for queue in QUEUES:
            told = [one for one in self.waiting(queue) if one.announced]
            names = [one.id for one in sorted(told, key=key)]
            assert names == self.reference.next_few(queue), queue
            assert all(self.stands(one) for one in told), "announced under other rules"

    def check_quiet(self):
        """All are answered: nobody waits who may hope that others make room."""
        if all(one.phase == "refused" for one in self.opened()):
            for work in self.waiting():
                may_hope = self.may_go(work) and self.reference.hope(work)
                assert not may_hope, f"{work.id} may hope"


def key(work):
    """The order inside a queue."""
    return -work.priority, work.at_ms, work.id
