"""GET of cohorts: the document together with what its members use, borrow and lend now."""

from __future__ import annotations

from aiohttp import web

from services.gateway.app.context import GatewayContext, RequestContext, answer
from services.gateway.organisation.organisation_routes import collection_of, document_of
from services.gateway.protocol import live_tag
from services.gateway.queues.queue_standing import QueueStanding, standing_of
from services.gateway.queues.queue_views import CohortPage, CohortStanding
from shared.events.organisation import CohortApplied


async def list_cohorts(gateway: GatewayContext, call: RequestContext) -> web.Response:  # noqa: ARG001  # everybody sees all
    """All cohorts by name."""
    cohorts = (await gateway.organisation.current()).cohorts
    standing = await standing_of(gateway)
    items = tuple(_view(cohorts[name], standing) for name in sorted(cohorts))
    return answer(CohortPage(items=items, next_cursor=""))


async def get_cohort(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """One cohort."""
    cohort = await document_of(gateway, call, collection_of(call))
    return answer(_view(cohort, await standing_of(gateway)), 200, live_tag(cohort.version))


def _view(cohort: CohortApplied, standing: QueueStanding) -> CohortStanding:
    debt_millionths, debt_told_at_ms = standing.debt(cohort.name)
    return CohortStanding(
        name=cohort.name,
        version=cohort.version,
        parent=cohort.parent,
        weight=cohort.weight,
        flavors=standing.flavors(cohort),
        share_millionths=standing.share(cohort.name),
        debt_millionths=debt_millionths,
        debt_told_at_ms=debt_told_at_ms,
    )
