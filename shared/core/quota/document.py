"""What administrators say about one queue or cohort, and which of it is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from shared.core.model.amounts import Amount
from shared.core.model.units import UNLIMITED
from shared.core.quota.queue_policy import DEFAULT_POLICY, QueuePolicy, problem_of_policy

NOTHING: Final[Amount] = (0, 0, 0)
EVERYTHING: Final[Amount] = (UNLIMITED, UNLIMITED, UNLIMITED)
FLAVORS_MAX: Final = 256
WEIGHT_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorLimits:
    """What a node owns in one flavor; a limit of None is no limit."""

    nominal: Amount
    borrowing_limit: Amount | None = None
    lending_limit: Amount | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaDocument:
    """A queue or cohort as applied; `flavors` in the order in which they are tried."""

    name: str
    kind: str
    """queue | cohort."""
    version: int
    parent: str = ""
    team: str = ""
    flavors: Mapping[str, FlavorLimits] = field(default_factory=dict)
    strict: bool = False
    held: bool = False
    draining: bool = False
    weight: int = 1
    policy: QueuePolicy = DEFAULT_POLICY


def problem_of(document: QuotaDocument) -> str:
    """What is wrong with a document by itself; "" when nothing is."""
    name = document.name
    if document.parent == name:
        return f"{name}: is its own parent"
    if len(document.flavors) > FLAVORS_MAX:
        return f"{name}: more than {FLAVORS_MAX} flavors"
    if not 0 <= document.weight <= WEIGHT_MAX:
        return f"{name}: weight {document.weight} is not 0 to {WEIGHT_MAX}"
    policy = problem_of_policy(document.policy)
    if policy:
        return f"{name}: policy.{policy}"
    for flavor, limits in document.flavors.items():
        for kind in ("nominal", "borrowing_limit", "lending_limit"):
            amount: Amount | None = getattr(limits, kind)
            if amount is not None and not all(0 <= unit <= UNLIMITED for unit in amount):
                return f"{name}: {kind} of {flavor} is negative or larger than unlimited"
    return ""
