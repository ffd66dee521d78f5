"""What queues own, use, borrow and lend."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.monitoring.gauges.families import Labels
from services.monitoring.gauges.quota import borrowed_of, lent_of
from shared.core.model.nouns import GpuShare
from shared.core.model.units import UNLIMITED, Resources
from shared.events import quotas
from tests.unit.monitoring import builders as b
from tests.unit.monitoring.test_monitoring import Monitoring

AMOUNTS = st.integers(0, 20_000)


def queue(name: str, milli: int, parent: str = "all") -> quotas.QuotaChanged:
    limit = quotas.FlavorQuota(flavor="h100", nominal=Resources(gpu_milli=milli))
    return quotas.QuotaChanged(name=name, kind="queue", parent=parent, flavors=(limit,))


@pytest.fixture
def monitoring() -> Monitoring:
    """Vision holds three GPUs and owns one; two others own what it borrows, a third does not."""
    one = Monitoring()
    shares = tuple(GpuShare(index=at, mask=255, milli=1000, memory_mib=0) for at in range(3))
    one.read(
        queue("vision-queue", 1_000),
        queue("speech-queue", 3_000),
        queue("text-queue", 1_000, parent="half"),
        quotas.QuotaChanged(name="half", kind="cohort", parent="all"),
        quotas.QuotaChanged(name="all", kind="cohort"),
        queue("apart-queue", 8_000, parent=""),
        b.queued(),
        b.placed(2, shares=shares),
    )
    return one


@pytest.mark.parametrize(
    ("name", "borrowed", "lent"),
    [("vision", 2, 0), ("speech", 0, 1.5), ("text", 0, 0.5), ("apart", 0, 0)],
)
def test_what_one_borrows_its_tree_lends_by_what_each_does_not_use(
    monitoring: Monitoring, name: str, borrowed: float, lent: float
) -> None:
    labels = {"queue": f"{name}-queue", "flavor": "h100"}

    assert monitoring.value("muster_quota_borrowed_gpus", **labels) == borrowed
    assert monitoring.value("muster_quota_lent_gpus", **labels) == lent


def test_who_owns_without_limit_neither_borrows_nor_lends(monitoring: Monitoring) -> None:
    monitoring.read(queue("endless-queue", UNLIMITED))
    labels = {"queue": "endless-queue", "flavor": "h100"}

    assert monitoring.value("muster_quota_nominal_gpus", **labels) == float("inf")
    assert monitoring.value("muster_quota_borrowed_gpus", **labels) == 0
    assert monitoring.value("muster_quota_lent_gpus", **labels) == 0


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS), max_size=6))
def test_no_more_is_lent_than_is_borrowed_and_than_is_spare(
    queues: list[tuple[int, int]],
) -> None:
    nominal: dict[Labels, int] = {(f"q{at}", "h100"): own for at, (own, _) in enumerate(queues)}
    used: dict[Labels, int] = {(f"q{at}", "h100"): use for at, (_, use) in enumerate(queues)}
    borrowed = borrowed_of(nominal, used)

    lent = lent_of(nominal, used, borrowed, {name: "root" for name, _ in nominal})

    whole, spare = (
        sum(borrowed.values()),
        {key: max(own - used[key], 0) for key, own in nominal.items()},
    )
    assert all(0 <= lent[key] <= spare[key] for key in nominal)
    due = min(whole, sum(spare.values()))
    assert due - len(queues) <= sum(lent.values()) <= due
