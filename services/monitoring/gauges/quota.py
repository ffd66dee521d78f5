"""Quota of queues: what is theirs, what they use, borrow and lend, and what they are owed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import Metric

from services.monitoring.gauges.families import Labels, gauge, gpus
from services.monitoring.memory import MonitoringMemory
from shared.core.model.units import GPU_MILLI, UNLIMITED
from shared.core.quota.fair_share import SHARE_ONE
from shared.events.quotas import QuotaChanged

INFINITE: Final = float("inf")
Amounts = Mapping[Labels, int]
"""Milli-GPUs by (queue, flavor)."""


def families(memory: MonitoringMemory) -> Iterator[Metric]:
    """The gauges. O(queues x flavors)."""
    quotas = memory.quotas.copy()
    nominal = _nominal(quotas)
    used: Counter[Labels] = Counter()
    for (_, queue, flavor), milli in memory.held.charged.copy().items():
        used[queue, flavor] += milli
    text = "Nominal quota in GPUs; infinite when it is unlimited."
    names = "queue flavor"
    shown = {
        key: INFINITE if milli >= UNLIMITED else milli / GPU_MILLI
        for key, milli in nominal.items()
    }
    yield gauge("muster_quota_nominal_gpus", text, names, shown)
    text = "GPUs charged to a queue, its own and borrowed."
    yield gauge("muster_quota_used_gpus", text, names, gpus(used))
    text = "GPUs that a queue uses beyond its nominal quota."
    borrowed = borrowed_of(nominal, used)
    yield gauge("muster_quota_borrowed_gpus", text, names, gpus(borrowed))
    text = (
        "GPUs of a queue's nominal quota that others use: what is borrowed in its tree, split"
        " by what each queue there does not use itself."
    )
    lent = lent_of(nominal, used, borrowed, {name: _root(quotas, name) for name in quotas})
    yield gauge("muster_quota_lent_gpus", text, names, gpus(lent))
    text = (
        "Fair-share deficit of a queue or cohort, as a share that two hours pay back;"
        " below 0: credit."
    )
    yield gauge("muster_quota_debt_ratio", text, "kind name", _debts(memory))


def borrowed_of(nominal: Amounts, used: Amounts) -> dict[Labels, int]:
    """What each queue uses beyond its own, 0 where it does not."""
    return {key: max(used.get(key, 0) - own, 0) for key, own in nominal.items()}


def lent_of(
    nominal: Amounts, used: Amounts, borrowed: Amounts, roots: Mapping[str, str]
) -> dict[Labels, int]:
    """What each queue lends, milli-GPUs rounded down; all in all at most what is borrowed.

    `roots`: the uppermost node above each queue. What a cohort itself owns is not looked at, so
    more may be borrowed than queues have to lend. A queue of unlimited quota lends nothing: there
    is no end of what it could use itself.
    """
    spare = {
        key: max(own - used.get(key, 0), 0) if own < UNLIMITED else 0
        for key, own in nominal.items()
    }
    pools: defaultdict[Labels, list[int]] = defaultdict(lambda: [0, 0])
    for (queue, flavor), milli in spare.items():
        pool = pools[roots[queue], flavor]
        pool[0] += milli
        pool[1] += borrowed[queue, flavor]
    return {
        (queue, flavor): _share(milli, *pools[roots[queue], flavor])
        for (queue, flavor), milli in spare.items()
    }


def _share(spare: int, whole: int, borrowed: int) -> int:
    return spare * min(borrowed, whole) // whole if whole else 0


def _nominal(quotas: Mapping[str, QuotaChanged]) -> dict[Labels, int]:
    return {
        (name, limit.flavor): limit.nominal.gpu_milli
        for name, node in quotas.items()
        if node.kind == "queue"
        for limit in node.flavors
    }


def _root(quotas: Mapping[str, QuotaChanged], name: str) -> str:
    """The uppermost node; a parent that is not known yet is one."""
    seen: set[str] = set()
    while name in quotas and quotas[name].parent and name not in seen:
        seen.add(name)
        name = quotas[name].parent
    return name


def _debts(memory: MonitoringMemory) -> dict[Labels, float]:
    quotas = memory.quotas
    return {
        (quotas[name].kind, name): debt.millionths / SHARE_ONE
        for name, debt in memory.debts.copy().items()
        if name in quotas
    }
