"""Which flavors of its queue a workload may be tried in, and in what order (mission Q7, P10).

Permitted is a flavor with one of the wanted products; a spot flavor only for work that may be
interrupted: it saves checkpoints and is preemptible. Their order follows from documents alone:

1. spot flavors, where the queue says `spot_first`;
2. by the weights of the products that the workload prefers;
3. as the queue's document has them.

Where the choice is made, use decides first: flavors in which the workload stays within the
queue's nominal quota come before those in which it would borrow. A queue that does not
`borrow_before_preempt` borrows nothing while it owns enough: it waits for its own, and takes it
back. Kueue's flavorFungibility (KEP-582) is the model; there a flavor is left for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from shared.core.model.amounts import Amount
from shared.core.model.nouns import WorkloadSpec
from shared.core.quota.fair_share import within_nominal
from shared.core.quota.tree import QuotaNode


class FlavorKind(NamedTuple):
    """What a flavor is made of; no products is any."""

    products: tuple[str, ...] = ()
    spot: bool = False


UNTOLD: Final = FlavorKind()
"""Of a flavor without a document so far."""


class FlavorChoice(NamedTuple):
    """What a workload says about flavors."""

    products: tuple[str, ...] = ()
    preferred: tuple[tuple[str, int], ...] = ()
    """(product, weight): a larger one first."""
    interruptible: bool = False
    evictable: bool = True
    """If false, it gives back nothing that it borrowed, so it borrows nothing (docs/adr/0056)."""


ANY: Final = FlavorChoice()


def choice_of(spec: WorkloadSpec) -> FlavorChoice:
    """What a submission says about flavors."""
    return FlavorChoice(
        products=spec.gpu_choice.products,
        preferred=tuple(sorted(spec.gpu_choice.preferred_products.items())),
        interruptible=spec.preemptible and spec.checkpoint_interval_seconds is not None,
        evictable=spec.preemptible,
    )


def permitted(
    flavors: Iterable[str],
    kinds: Mapping[str, FlavorKind],
    choice: FlavorChoice,
    *,
    spot_first: bool,
) -> list[str]:
    """The flavors of a queue's document that will do, in order."""
    found = [
        flavor
        for flavor in flavors
        if has_product(kinds.get(flavor, UNTOLD), choice)
        and (choice.interruptible or not kinds.get(flavor, UNTOLD).spot)
    ]
    if choice.preferred:
        weights = dict(choice.preferred)
        found.sort(key=lambda one: -_weight(kinds.get(one, UNTOLD), weights))
    if spot_first:
        found.sort(key=lambda one: not kinds.get(one, UNTOLD).spot)
    return found


def has_product(kind: FlavorKind, choice: FlavorChoice) -> bool:
    """Whether the flavor has one of the wanted products, as far as both are told."""
    return (
        not choice.products
        or not kind.products
        or not set(choice.products).isdisjoint(kind.products)
    )


def in_order_of_use(
    queue: QuotaNode, flavors: Sequence[str], request: Amount, *, borrow_before_preempt: bool
) -> Sequence[str]:
    """The permitted flavors to try now: what the queue owns first, then what it must borrow."""
    owed = [flavor for flavor in flavors if within_nominal(queue, flavor, request)]
    if len(owed) == len(flavors) or (owed and not borrow_before_preempt):
        return owed
    return [*owed, *(flavor for flavor in flavors if flavor not in owed)]


def _weight(kind: FlavorKind, weights: Mapping[str, int]) -> int:
    return max((weights.get(product, 0) for product in kind.products), default=0)
