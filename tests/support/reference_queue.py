"""Who runs next, told once more in the plainest words; the core is compared with this.

No index, no sums kept up to date: documents, work and what ever ran are all that is known, and
each answer is worked out from that, mostly by trying. The tree is `ReferenceTree`.
"""

from datetime import UTC, datetime
from itertools import product
from math import floor, log

from shared.core.model.team_policy import AtLimit
from shared.core.model.units import UNLIMITED
from shared.core.queueing.nomination.flavor_choice import UNTOLD
from shared.core.queueing.nomination.next_of_own import NEXT_MAX
from shared.core.quota.queue_policy import Reclaim, WithinQueue
from shared.core.quota.tree import DEPTH_MAX
from tests.support.quota_reference import UNITS, ReferenceTree, remembered

OPEN = ("offered", "refused")
SHARE_ONE = 1_000_000
GPU_HOUR = 3_600_000 * 1_000
"""Milli-GPU milliseconds."""


class ReferenceQueue(ReferenceTree):
    """`works` have id, queue, team, priority, at_ms, request, choice, phase, flavor, hopes_in.

    `periods` are (queue, team, milli-GPU, price, begin, end or None) of what ever ran.
    """

    def __init__(self, half_life_ms):
        super().__init__()
        self.works, self.kinds, self.budgets, self.periods = {}, {}, {}, []
        self.debts = {}
        """As told, in parts per million of a share."""
        self.half_life_ms, self.now_ms = half_life_ms, 0

    def document(self, work):
        return self.documents.get(work.queue)

    # ── use over time, and budgets ──

    def used_over_time(self, queue, at_ms):
        """GPU-seconds, each weighing half after a half-life."""
        half, total = self.half_life_ms, 0
        for name, _, milli, _, begin, end in self.periods:
            if name == queue:
                ages = [(min(one, at_ms) - at_ms) / half for one in (begin, end or at_ms)]
                total += milli * half / log(2) * (2 ** ages[1] - 2 ** ages[0])
        return floor(total / 1_000_000 + 1e-6)

    def percent(self, team):
        """Of the month's budget, the fuller of its two limits."""
        now = datetime.fromtimestamp(self.now_ms / 1000, UTC)
        month = round(datetime(now.year, now.month, 1, tzinfo=UTC).timestamp() * 1000)
        spent = [0, 0]
        for _, whose, milli, price, begin, end in self.periods:
            if whose == team:
                held = milli * max(0, (end or self.now_ms) - max(begin, month))
                spent = [spent[0] + held, spent[1] + held * price]
        budget = self.budgets[team]
        limits = (budget.gpu_hours_per_month, budget.microdollars_per_month)
        known = [pair for pair in zip(spent, limits, strict=True) if pair[1] is not None]
        return max(100 * used // (limit * GPU_HOUR) if limit else 100 for used, limit in known)

    def at_limit(self, work):
        team = self.document(work).team if self.document(work) else ""
        budget = self.budgets.get(team)
        return budget.at_limit if budget is not None and self.percent(team) >= 100 else None

    def owned_only(self, work):
        """Whether its queue may borrow nothing for it."""
        return self.at_limit(work) is AtLimit.NOMINAL or self.stays(work)

    def stays(self, work):
        """Nobody may evict it, and its queue lends only to those who can be."""
        document = self.document(work)
        lends = document is not None and document.policy.unevictable_may_borrow
        return not (work.choice.evictable or lends)

    # ── whose turn ──

    def within_nominal(self, queue, flavor, request):
        return all(
            self.used(queue, flavor, unit) + request[unit] <= self.owned(queue, flavor, unit)
            for unit in UNITS
            if request[unit]
        )

    def weight(self, name):
        return self.documents[name].weight if name in self.documents else 1

    def share(self, name):
        """What it borrows, and what it had beyond its part lately."""
        return self.borrowed_share(name) + self.debts.get(name, 0)

    @remembered
    def borrowed_share(self, name):
        """The largest part of what its cohort owns that it uses above its own, by weight."""
        largest = 0
        flavors = {flavor for _, flavor in (*self.charges, *self.promises)}
        for flavor, unit in product(flavors, UNITS):
            more = self.used(name, flavor, unit) - self.owned(name, flavor, unit)
            if more > 0:
                wholes = [self.owned(one, flavor, unit) for one in self.path(name)[1:]]
                whole = next((one for one in wholes if one), more)
                largest = max(largest, -(-more * SHARE_ONE // whole))
        weight = self.weight(name)
        return -(-largest // weight) if weight else min(largest, 1) * UNLIMITED

    def order(self, work, flavors, used):
        """Priority, owed before borrowed, shares from the top down, use over time, age."""
        used //= max(1, self.weight(work.queue))
        if any(self.within_nominal(work.queue, one, work.request) for one in flavors):
            return -work.priority, 0, (), used, work.at_ms, work.id
        shares = [self.share(one) for one in self.path(work.queue)[-2::-1]]
        shares += [0] * (DEPTH_MAX - len(shares))
        return -work.priority, 1, tuple(shares), used, work.at_ms, work.id

    # ── in which flavors ──

    def permitted(self, work):
        """Of its queue's flavors those with the product, and quota at all, as it prefers them."""
        document, choice, limit = self.document(work), work.choice, self.at_limit(work)
        named = document.flavors if document else ()
        kinds = {one: self.kinds.get(one, UNTOLD) for one in named}
        found = [
            one
            for one, kind in kinds.items()
            if (not choice.products or not kind.products or {*choice.products} & {*kind.products})
            and (not kind.spot or choice.interruptible)
            and (limit is not AtLimit.SPOT or kind.spot)
            and limit is not AtLimit.STOP
            and self.fits_empty(work.queue, one, work.request)
            and not (self.stays(work) and self.exceeds_own(work, one))
        ]
        weight = dict(choice.preferred)
        found.sort(key=lambda one: -max([0, *(weight.get(p, 0) for p in kinds[one].products)]))
        if document and document.policy.spot_first:
            found.sort(key=lambda one: not kinds[one].spot)
        return tuple(found)

    def exceeds_own(self, work, flavor):
        """Whether its queue owns less of what it asks for."""
        asked = [unit for unit in UNITS if work.request[unit]]
        return any(work.request[unit] > self.owned(work.queue, flavor, unit) for unit in asked)

    def to_try(self, work, flavors, *, only_nominal):
        """What it owns before what it borrows; no borrowing where the rules forbid it."""
        owed = [one for one in flavors if self.within_nominal(work.queue, one, work.request)]
        patient = self.document(work) and not self.document(work).policy.borrow_before_preempt
        borrows = not only_nominal and not (owed and patient)
        return [*owed, *(one for one in flavors if borrows and one not in owed)]

    def room(self, work):
        """The flavor in which it may be tried now; "" for none."""
        only_nominal = self.owned_only(work)
        flavors = self.to_try(work, self.permitted(work), only_nominal=only_nominal)
        return next((one for one in flavors if self.fits_all(work.queue, one, work.request)), "")

    def hope(self, work):
        """The flavor in which others may have to make room for it; "" for none."""
        queue, policy = work.queue, self.document(work).policy
        for flavor in self.permitted(work):
            owed = self.within_nominal(queue, flavor, work.request)
            if self.owned_only(work) and not self.would_own(work, flavor, policy):
                continue
            same = [one for one in self.works.values() if one.queue == queue]
            hopes = [one for one in same if one.phase in OPEN and one.hopes_in == flavor]
            hoped = [sum(one.request[unit] for one in hopes) for unit in UNITS]
            in_vain = [
                one for one in hopes if one.phase == "refused" and one.request[0] > work.request[0]
            ]
            wanted = tuple(
                asked and asked + hoped[unit] - sum(one.request[unit] for one in in_vain)
                for unit, asked in enumerate(work.request)
            )
            if self.inside(work, flavor, wanted, policy) or self.across(
                queue, flavor, wanted, policy
            ):
                return flavor
            # What is owed counts what is owed besides, and nothing that would have to borrow.
            beside = [one.request for one in hopes if one not in in_vain]
            own = [one for one in beside if self.within_nominal(queue, flavor, one)]
            with_own = tuple(
                asked and asked + sum(one[unit] for one in own)
                for unit, asked in enumerate(work.request)
            )
            owed = hopes and owed and policy.reclaim is not Reclaim.NEVER
            owed = owed and self.within_nominal(queue, flavor, with_own)
            if owed and self.across(queue, flavor, work.request, policy):
                return flavor
        return ""

    def own_room(self, work):
        """Where there is room for it within what its queue owns; "" for nowhere."""
        for flavor in self.permitted(work):
            own = self.within_nominal(work.queue, flavor, work.request)
            if own and self.fits_all(work.queue, flavor, work.request):
                return flavor
        return ""

    def next_few(self, queue):
        """Who of those that wait is announced as the next for what the queue owns."""
        document = self.documents.get(queue)
        found: list = []
        sums: dict = {}
        works = [one for one in self.works.values() if one.queue == queue]
        opened = [one for one in works if one.phase in OPEN]
        if document is None or document.held or document.draining:
            return found
        waiting = sorted(
            (one for one in works if one.phase == "waiting"),
            key=lambda one: (-one.priority, one.at_ms, one.id),
        )
        if document.strict and opened:
            return found
        hoped = {one.hopes_in for one in opened}
        for head in waiting[:1]:
            usable = [
                one
                for one in self.permitted(head)
                if not self.owned_only(head) or self.within_nominal(queue, one, head.request)
            ]
            found += [head.id] if set(usable) - hoped else []
        for work in waiting if not document.strict else ():
            flavor = self.next_in(work, sums)
            if flavor and len(found) < NEXT_MAX:
                found += [work.id] if work.id not in found else []
                before = sums.get(flavor, (0, 0, 0))
                sums[flavor] = tuple(
                    one + more for one, more in zip(before, work.request, strict=True)
                )
        return found

    def next_in(self, work, sums):
        """Where its queue owns so much beside `sums` and borrows none of it; "" for nowhere."""
        for flavor in self.permitted(work):
            within = self.within_nominal(work.queue, flavor, work.request)
            hopes = [
                one
                for one in self.works.values()
                if (one.queue, one.hopes_in) == (work.queue, flavor) and one.phase in OPEN
            ]
            if hopes or (self.owned_only(work) and not within):
                continue
            beside = sums.get(flavor, (0, 0, 0))
            asked = [unit for unit in UNITS if work.request[unit]]
            if all(
                self.used(work.queue, flavor, unit) <= self.owned(work.queue, flavor, unit)
                and beside[unit] + work.request[unit] <= self.owned(work.queue, flavor, unit)
                for unit in asked
            ):
                return flavor
        return ""

    def would_own(self, work, flavor, policy):
        """Whether its queue owns enough once all its work of lower priority is gone."""
        lower = self.lower(work, flavor) if policy.within_queue is not WithinQueue.NEVER else []
        for one in lower:
            self.charge(work.queue, flavor, one.charge, -1)
        found = self.within_nominal(work.queue, flavor, work.request)
        for one in lower:
            self.charge(work.queue, flavor, one.charge)
        return found

    def lower(self, work, flavor):
        """What its queue holds there of a lower priority."""
        held = [
            one for one in self.works.values() if (one.queue, one.flavor) == (work.queue, flavor)
        ]
        return [one for one in held if one.phase == "placed" and one.priority < work.priority]

    def inside(self, work, flavor, wanted, policy):
        """Whether it fits once all work of lower priority of its queue is gone."""
        lower = self.lower(work, flavor)
        for one in lower:
            self.charge(work.queue, flavor, one.charge, -1)
        fits = any(any(one.charge) for one in lower) and self.fits_all(work.queue, flavor, wanted)
        for one in lower:
            self.charge(work.queue, flavor, one.charge)
        return fits and policy.within_queue is not WithinQueue.NEVER

    def across(self, queue, flavor, wanted, policy):
        """Whether for each full level somebody on the way there may ask others to go."""
        asked = [unit for unit in UNITS if wanted[unit]]
        full = {name for unit in asked for name in self.full(queue, flavor, unit, wanted[unit])}
        asking = (queue, flavor, wanted, policy)
        path = self.path(queue)
        return all(
            any(self.may_ask(one, *asking) for one in path[: path.index(name)]) for name in full
        )

    def may_ask(self, branch, queue, flavor, wanted, policy):
        """It stays within what it owns, or has less than another of its cohort."""
        after = [self.used(branch, flavor, unit, True, (queue, wanted[unit])) for unit in UNITS]
        before = [self.used(branch, flavor, unit) for unit in UNITS]
        owned = [self.owned(branch, flavor, unit) for unit in UNITS]
        owed = all(after[unit] <= max(before[unit], owned[unit]) for unit in UNITS)
        if owed and policy.reclaim is not Reclaim.NEVER:
            return True
        sisters = [one for one in self.children(self.parent(branch)) if one != branch]
        others = [self.share(one) for one in sisters if self.borrowed_share(one)]
        self.promise(queue, flavor, wanted)
        mine = self.share(branch)
        self.promise(queue, flavor, wanted, -1)
        return policy.fair_share and mine < max(others, default=mine)
