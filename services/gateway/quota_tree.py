"""The quota tree as the read model knows it: documents of now, the ledger, and debts as told.

The same algebra by which quota decides (core.quota.tree), so a reader is told the same levels.
Made anew at most every `FRESH_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from services.gateway.door import Door
from services.gateway.queue_use import use_by_queue
from shared.core.lifecycle import HOLDING
from shared.core.model import WorkloadSpec
from shared.core.nomination.flavor_choice import FlavorKind, choice_of, permitted
from shared.core.quota.tree import QuotaNode, QuotaTree
from shared.events.quota_documents import document_of

FRESH_SECONDS: Final = 1.0
_HOLDING: Final = frozenset(state.value for state in HOLDING)


async def quota_tree(door: Door) -> QuotaTree:
    """All queues and cohorts with their use, at most `FRESH_SECONDS` old."""
    now = door.clock.monotonic_seconds()
    known = door.cache.get("tree")
    if known is not None and now - known[0] < FRESH_SECONDS:
        remembered: QuotaTree = known[1]
        return remembered
    organisation = await door.organisation.current()
    tree = QuotaTree()
    for cohort in organisation.cohorts.values():
        tree.apply(document_of(cohort))
    for queue in organisation.queues.values():
        tree.apply(document_of(queue))
    for name, rows in (await use_by_queue(door)).items():
        for row in rows:
            if row["state"] in _HOLDING and row["flavor"]:
                amount = (row["gpu_milli"], row["cpu_milli"], row["memory_mib"])
                tree.charge(name, row["flavor"], amount)
    for row in await door.reader.fetch("SELECT node, debt_millionths FROM gateway.node_debt"):
        if row["node"] in tree.nodes:
            tree.set_debt(row["node"], row["debt_millionths"])
    door.cache["tree"] = (now, tree)
    return tree


async def flavors_for(
    door: Door, queue: QuotaNode, spec: WorkloadSpec | None
) -> tuple[list[str], list[str]]:
    """Flavors of `queue` in which such a workload may be tried; all where it says nothing.

    And those that it might use beside them if it could be interrupted, as they are spot.
    """
    document = queue.document
    if document is None:
        return [], []
    if spec is None:
        return list(document.flavors), []
    applied = (await door.organisation.current()).flavors
    kinds = {name: FlavorKind(one.products, one.spot) for name, one in applied.items()}
    choice, first = choice_of(spec), document.policy.spot_first
    found = permitted(document.flavors, kinds, choice, spot_first=first)
    all_of_them = permitted(
        document.flavors, kinds, choice._replace(interruptible=True), spot_first=first
    )
    return found, [one for one in all_of_them if one not in found]


def queues_below(node: QuotaNode) -> Iterator[str]:
    """Names of the queues of a subtree, its own when it is one."""
    if node.is_queue:
        yield node.name
    for child in node.children.values():
        yield from queues_below(child)
