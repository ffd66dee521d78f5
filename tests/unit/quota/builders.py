"""Valid objects that name only what matters to a test of quota."""

from shared.core.model.units import UNLIMITED
from shared.core.queueing.nomination.decision import Expect, Nominate, Refuse, Withdraw
from shared.core.queueing.nomination.flavor_choice import FlavorChoice
from shared.core.queueing.nomination.nominator import Nominator
from shared.core.queueing.nomination.pending import Pending
from shared.core.quota.queue_policy import QueuePolicy, Reclaim, WithinQueue
from shared.core.quota.tree import FlavorLimits, QuotaDocument

PATIENT = QueuePolicy(within_queue=WithinQueue.NEVER, reclaim=Reclaim.NEVER, fair_share=False)
"""Nobody is evicted for the work of such a queue."""


def gpus(count):
    """GPUs as an amount; CPU and memory as a matter of course."""
    return (count * 1000, 1, 1)


def limits(count=UNLIMITED):
    milli = UNLIMITED if count == UNLIMITED else count * 1000
    return FlavorLimits(nominal=(milli, UNLIMITED, UNLIMITED))


def a_queue(name="q", version=1, parent="", kind="queue", flavors=None, **rest):
    """Quota as GPUs by flavor."""
    flavors = {"h100": 8} if flavors is None else flavors
    return QuotaDocument(
        name=name,
        kind=kind,
        version=version,
        parent=parent,
        flavors={flavor: limits(count) for flavor, count in flavors.items()},
        **rest,
    )


def a_cohort(name="c", **rest):
    return a_queue(name, kind="cohort", **({"flavors": {}} | rest))


def a_pending(
    identifier, count=1, *, at=0, priority=0, queue="q", request=None, products=(), choice=None
):
    return Pending(
        identifier,
        team="t",
        queue=queue,
        priority=priority,
        submitted_at_ms=at,
        request=request if request is not None else gpus(count),
        choice=choice or FlavorChoice(products=products),
    )


class Desk:
    """A nominator with the decisions in short: +id nominated, -id withdrawn, ?id:reason."""

    def __init__(self, *documents, announces=True, **options):
        self.core = Nominator(**options)
        self.announces = announces
        """As long as quota keeps up."""
        self.refusals = {}
        self.offers = {}
        self.hopes = {}
        """Whether others must make room first, by workload."""
        self.announced = {}
        """Nominations of those who wait on, by workload; what becomes of them is not told."""
        for document in documents:
            assert self.core.apply(document)[1] == ""
        self.settle()

    def queue(self, *pendings):
        for one in pendings:
            self.core.enter(one)
        return self.settle()

    def place(self, pending, flavor="h100", attempt=1):
        self.core.placed(pending, flavor, pending.request, attempt)
        return self.settle()

    def release(self, pending):
        self.core.released(pending)
        return self.settle()

    def settle(self):
        said = []
        turns = 0
        while True:
            self.core.settle(announce=self.announces)
            said += [self._short(one) for one in self.core.take() if not self._announces(one)]
            turns += 1
            assert turns < 1000, "the turns never end"
            if not self.core.unsettled:
                return said

    def _announces(self, decision):
        match decision:
            case Expect(pending, nomination):
                assert self.announced.pop(pending.id) == nomination == pending.nomination
                return True
            case Nominate(pending, nomination, next_of_own=True):
                assert nomination == pending.nomination
                self.announced[pending.id] = nomination
                return True
            case Withdraw(pending, nomination) if self.announced.get(pending.id) == nomination:
                del self.announced[pending.id]
                return True
            case _:
                return False

    def _short(self, decision):
        match decision:
            case Nominate(pending, nomination, flavors, _):
                assert nomination == pending.nomination
                self.offers[pending.id] = flavors
                self.hopes[pending.id] = decision.by_eviction
                return f"+{pending.id}"
            case Withdraw(pending, _):
                return f"-{pending.id}"
            case Refuse(pending, refusal):
                self.refusals[pending.id] = refusal
                return f"?{pending.id}:{refusal.reason}"
            case _:
                raise AssertionError(decision)
