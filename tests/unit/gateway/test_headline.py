"""Which cause of a wait comes first, and how borrowed quota is told as one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from services.gateway.why.headline import Reclaiming, ReclaimNeed, Vacated, better, reclaiming
from services.gateway.why.why_views import NoEvictionView
from shared.core.model.decision import Reason, Refusal
from shared.core.model.units import UNLIMITED
from shared.core.model.value import replace
from shared.core.preemption.eligibility.plan import Obstacle
from shared.core.quota.document import FlavorLimits, QuotaDocument
from shared.core.quota.queue_policy import QueuePolicy, Reclaim
from shared.core.quota.tree import QuotaTree

FLAVOR = "h100"
AT_MS = 1_763_733_900_000
NEED = ReclaimNeed(flavor=FLAVOR, gpu_milli=8000, ahead_gpu_milli=0, free_gpu_milli=0)


def a_queue(tree: QuotaTree, name: str, gpus: int, parent: str = "all", **policy) -> None:
    document = QuotaDocument(
        name=name,
        kind="queue",
        version=len(tree.nodes) + 1,
        parent=parent,
        flavors={FLAVOR: FlavorLimits(nominal=(min(gpus * 1000, UNLIMITED), 0, 0))},
        policy=QueuePolicy(**policy),
    )
    assert not tree.apply(document)[1]


@pytest.fixture
def tree() -> QuotaTree:
    """Red owns 16 of which vision borrows 10; the cohort lab is within what it owns."""
    made = QuotaTree()
    for name, parent in (("all", ""), ("lab", "all")):
        made.apply(QuotaDocument(name=name, kind="cohort", version=1, parent=parent))
    a_queue(made, "red", 16)
    a_queue(made, "vision", 0)
    a_queue(made, "owner", 4, "lab")
    a_queue(made, "student", 0, "lab")
    for name, gpus in (("vision", 10), ("student", 4), ("red", 2)):
        made.charge(name, FLAVOR, (gpus * 1000, 0, 0))
    return made


def told(
    tree: QuotaTree, need: ReclaimNeed = NEED, vacated=None, no_eviction=None
) -> Reclaiming | None:
    return reclaiming(tree.node("red"), need, vacated or Vacated(), no_eviction)


def not_evicted(obstacle: Obstacle, retry_at_ms: int | None = None) -> NoEvictionView:
    return NoEvictionView(
        obstacle=obstacle,
        message="h100: 8 GPUs are within their minimum run time.",
        next_step="wait until they have run",
        evidence={},
        flavor=FLAVOR,
        retry_at_ms=retry_at_ms,
        at_ms=AT_MS,
    )


def test_who_borrows_what_the_queue_owns_is_named_with_the_numbers(tree):
    found = told(tree)

    assert found is not None
    assert (found.refusal.reason, found.under_way) == (Reason.RECLAIM, False)
    assert found.refusal.message == (
        "queue red owns 16 h100 GPUs and uses 2, this needs 8; queue vision borrows 10"
    )
    assert found.refusal.next_step.startswith("wait: borrowers that have run as long")
    numbers = found.refusal.evidence
    assert (16_000, 2_000, 10_000) == tuple(
        numbers[f"{name}_gpu_milli"] for name in ("owned", "used", "borrowed_by_others")
    )


def test_of_many_borrowers_the_largest_are_named(tree):
    for name, gpus in (("a", 1), ("b", 3), ("c", 2)):
        a_queue(tree, name, 0)
        tree.charge(name, FLAVOR, (gpus * 1000, 0, 0))

    found = told(tree)

    assert found is not None
    assert found.refusal.message.endswith("queues vision (10), b (3) and 2 other queues borrow 16")


def test_what_is_being_taken_back_is_told_with_its_time(tree):
    found = told(tree, vacated=Vacated(gpu_milli=8000, by_ms=AT_MS))

    assert found is not None
    assert found.under_way
    assert found.refusal.message.endswith(
        "; 8 GPUs are being taken back for it, by 2025-11-21 14:05:00Z"
    )
    assert found.refusal.next_step == (
        "wait until 2025-11-21 14:05:00Z: nothing has to be changed"
    )
    assert found.refusal.evidence["vacated_by_ms"] == AT_MS


def test_a_queue_of_unlimited_quota_is_told_no_number_of_it(tree):
    a_queue(tree, "red", UNLIMITED)

    found = told(tree, vacated=Vacated(gpu_milli=8000, by_ms=AT_MS))

    assert found is not None
    assert found.refusal.message.startswith("queue red owns h100 GPUs and uses 2")
    assert "owned_gpu_milli" not in found.refusal.evidence


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"free_gpu_milli": 8000}, id="enough is free, wherever it lies"),
        pytest.param({"gpu_milli": 12_000}, id="borrowers hold too little of it"),
        pytest.param({"ahead_gpu_milli": 8000}, id="others of its queue come first"),
    ],
)
def test_where_it_would_wait_all_the_same_borrowing_is_not_the_cause(tree, changed):
    fields = {name: getattr(NEED, name) for name in NEED.__slots__} | changed

    assert told(tree, ReclaimNeed(**fields)) is None


@pytest.mark.parametrize(
    ("obstacle", "is_cause"),
    [
        (Obstacle.MIN_RUNTIME, True),
        (Obstacle.NO_ROOM, False),
        (Obstacle.NOMINAL, False),
    ],
)
def test_where_no_borrower_may_be_evicted_it_is_told_why_unless_that_would_not_help(
    tree, obstacle, is_cause
):
    found = told(tree, no_eviction=not_evicted(obstacle, AT_MS))

    assert (found is not None) == is_cause
    if found is not None:
        assert "; nothing is evicted for it now: h100: 8 GPUs are" in found.refusal.message
        assert found.refusal.message.endswith("which may change at 2025-11-21 14:05:00Z")
        assert found.refusal.next_step == "wait until they have run"


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"reclaim": Reclaim.NEVER}, "wait until borrowers end: by its policy queue red"),
        ({"reclaim": Reclaim.LOWER_PRIORITY}, "wait: borrowers of lower priority that have"),
        ({"preemption_delay_seconds": 90}, "are evicted for it, 90 s after its submission"),
    ],
)
def test_the_next_step_follows_the_policy_of_the_queue(tree, policy, words):
    a_queue(tree, "red", 16, **policy)

    found = told(tree)

    assert found is not None
    assert words in found.refusal.next_step


def refusal(reason: Reason) -> Refusal:
    return Refusal(reason=reason, message="m", next_step="n")


STOPPED = refusal(Reason.QUEUE_HELD)
BEYOND = refusal(Reason.EXCEEDS_QUOTA)
QUOTA = refusal(Reason.WAITING_FOR_QUOTA)
TAKEN = Reclaiming(refusal=refusal(Reason.RECLAIM), under_way=True)
OWED = Reclaiming(refusal=replace(TAKEN.refusal, message="owed"), under_way=False)
PROMISE = {"promised_start_ms": AT_MS}


def chosen(reason: Reason, evidence=None, **numbers) -> Refusal | None:
    nothing = {"stopped": None, "reclaiming": None, "beyond": None, "refusal": None}
    return better(SimpleNamespace(**nothing | numbers), reason, evidence or {})


def test_the_dominant_cause_comes_first():
    every = {"beyond": BEYOND, "refusal": QUOTA}
    room = Reason.NO_CAPACITY

    assert chosen(room, stopped=STOPPED, reclaiming=TAKEN, **every) is STOPPED
    assert chosen(room, PROMISE, reclaiming=TAKEN, **every) is TAKEN.refusal
    assert chosen(room, PROMISE, reclaiming=OWED, **every) is None
    assert chosen(room, reclaiming=OWED, **every) is BEYOND
    assert chosen(room, reclaiming=OWED, refusal=QUOTA) is OWED.refusal
    assert chosen(Reason.BEHIND_HEAD, reclaiming=TAKEN, **every) is QUOTA
    assert chosen(room, refusal=QUOTA) is None
    assert chosen(Reason.WAITING_FOR_QUOTA, refusal=QUOTA) is QUOTA
