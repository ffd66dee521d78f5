"""The quota tree as the read model knows it: documents of now, the ledger, and debts as told.

The same algebra by which quota decides (core.quota.tree), so a reader is told the same levels.
Made anew at most every `FRESH_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from services.gateway.app.context import GatewayContext
from services.gateway.queues.queue_use import use_by_queue
from shared.core.model.amounts import Amount, fits
from shared.core.model.charges import least_amount
from shared.core.model.decision import Refusal
from shared.core.model.lifecycle import HOLDING
from shared.core.model.nouns import WorkloadSpec
from shared.core.queueing.nomination import FlavorChoice, FlavorKind, choice_of, permitted
from shared.core.quota import reasons
from shared.core.quota.attainable import Attainable
from shared.core.quota.document import QuotaDocument
from shared.core.quota.tree import NOTHING, QuotaNode, QuotaTree
from shared.events.quota_documents import document_of

FRESH_SECONDS: Final = 1.0
_HOLDING: Final = frozenset(state.value for state in HOLDING)


class Lacking(NamedTuple):
    """What an amount waits for in one flavor."""

    queues: frozenset[str] | None
    """Queues below the limit in the way; their work must end. None: work of any queue."""
    gpu_milli: int
    """How much of it; at least something, as the limit may be of cores or memory."""


async def quota_tree(gateway: GatewayContext) -> QuotaTree:
    """All queues and cohorts with their use, at most `FRESH_SECONDS` old."""
    now = gateway.clock.monotonic_seconds()
    known = gateway.cache.get("tree")
    if known is not None and now - known[0] < FRESH_SECONDS:
        remembered: QuotaTree = known[1]
        return remembered
    organisation = await gateway.organisation.current()
    tree = QuotaTree()
    for cohort in organisation.cohorts.values():
        tree.apply(document_of(cohort))
    for queue in organisation.queues.values():
        tree.apply(document_of(queue))
    for name, rows in (await use_by_queue(gateway)).items():
        for row in rows:
            if row["state"] in _HOLDING and row["flavor"]:
                amount = (row["gpu_milli"], row["cpu_milli"], row["memory_mib"])
                tree.charge(name, row["flavor"], amount)
    for row in await gateway.reader.fetch("SELECT node, debt_millionths FROM gateway.node_debt"):
        if row["node"] in tree.nodes:
            tree.set_debt(row["node"], row["debt_millionths"])
    gateway.cache["tree"] = (now, tree)
    return tree


async def flavors_for(
    gateway: GatewayContext, queue: QuotaNode, spec: WorkloadSpec | None
) -> list[str]:
    """Flavors of `queue` in which such a workload may be tried; all where it says nothing.

    One that has less in all than it asks for is left out, unless that holds for each of them.
    """
    document = queue.document
    if spec is None:
        return list(document.flavors) if document is not None else []
    found = await _permitted(gateway, document, choice_of(spec))
    request = least_amount(spec)
    return [one for one in found if fits(request, NOTHING, queue.potential(one))] or found


async def spot_left_out(
    gateway: GatewayContext, queue: QuotaNode, spec: WorkloadSpec | None
) -> list[str]:
    """Those that it might use beside them if it could be interrupted."""
    if spec is None:
        return []
    choice = choice_of(spec)
    found = await _permitted(gateway, queue.document, choice)
    if_interruptible = choice._replace(interruptible=True)
    every = await _permitted(gateway, queue.document, if_interruptible)
    return [one for one in every if one not in found]


async def _permitted(
    gateway: GatewayContext, document: QuotaDocument | None, choice: FlavorChoice
) -> list[str]:
    if document is None:
        return []
    applied = (await gateway.organisation.current()).flavors
    kinds = {name: FlavorKind(one.products, one.spot) for name, one in applied.items()}
    first = document.policy.spot_first
    return permitted(document.flavors, kinds, choice, spot_first=first)


def out_of_reach(queue: QuotaNode, flavors: Sequence[str], request: Amount) -> Refusal | None:
    """Why in none of `flavors` time or evictions bring its quota; told of the first."""
    can_have = Attainable()
    found = [can_have.beyond(queue, one, request) for one in flavors]
    if not found or found[0] is None or None in found:
        return None
    return reasons.beyond(found[0], flavors[0])


def queues_below(node: QuotaNode) -> Iterator[str]:
    """Names of the queues of a subtree, its own when it is one."""
    if node.is_queue:
        yield node.name
    for child in node.children.values():
        yield from queues_below(child)


def lacking(tree: QuotaTree, queue: QuotaNode, flavor: str, request: Amount) -> Lacking:
    """Queues where ends of work help `request` of `queue` in a flavor, and how much is needed."""
    found = tree.blocking(queue, flavor, request)
    if found is None:
        return Lacking(None, request[0])
    node, asked = found
    over_milli = node.taken(flavor)[0] + asked[0] - node.limits_in(flavor).ceiling[0]
    return Lacking(frozenset(queues_below(node)), max(over_milli, 1))
