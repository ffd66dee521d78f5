"""What administrators applied, as the nouns of the core."""

from __future__ import annotations

from shared.core.quota.document import QuotaDocument
from shared.events.organisation import CohortApplied, QueueApplied


def document_of(applied: QueueApplied | CohortApplied) -> QuotaDocument:
    """The node of the quota tree that was applied."""
    flavors = {one.flavor: one.limits() for one in applied.flavors}
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
