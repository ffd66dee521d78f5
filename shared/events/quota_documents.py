"""What administrators applied, as the nouns of the core."""

from __future__ import annotations

from shared.core.amounts import amount
from shared.core.quota_document import FlavorLimits, QuotaDocument
from shared.events.organisation import CohortApplied, QueueApplied
from shared.events.quotas import FlavorQuota


def document_of(applied: QueueApplied | CohortApplied) -> QuotaDocument:
    """The node of the quota tree that was applied."""
    flavors = {one.flavor: _limits_of(one) for one in applied.flavors}
    if isinstance(applied, QueueApplied):
        return QuotaDocument(
            name=applied.name,
            kind="queue",
            version=applied.version,
            parent=applied.cohort,
            team=applied.team,
            flavors=flavors,
            strict=applied.strict,
            held=applied.held,
            draining=applied.draining,
            weight=applied.weight,
            policy=applied.policy,
        )
    return QuotaDocument(
        name=applied.name,
        kind="cohort",
        version=applied.version,
        parent=applied.parent,
        flavors=flavors,
        weight=applied.weight,
    )


def _limits_of(one: FlavorQuota) -> FlavorLimits:
    return FlavorLimits(
        nominal=amount(one.nominal),
        borrowing_limit=None if one.borrowing_limit is None else amount(one.borrowing_limit),
        lending_limit=None if one.lending_limit is None else amount(one.lending_limit),
    )
