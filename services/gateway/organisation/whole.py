"""Routes of the organisation as a whole: read at one moment, and changes rehearsed on it."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from aiohttp import web

from services.gateway.app.context import GatewayContext, RequestContext, answer
from services.gateway.documents.documents import IN_ORDER_OF_NEED
from services.gateway.documents.organisation_views import (
    OrganisationView,
    Rehearsal,
    RehearsalRequest,
)
from services.gateway.http import bodies
from services.gateway.organisation.products import reported_products
from services.gateway.organisation.rehearsing import Rehearsing

_request: Final = msgspec.json.Decoder(RehearsalRequest)


async def get_organisation(gateway: GatewayContext, call: RequestContext) -> web.Response:  # noqa: ARG001  # it is for operators
    """All documents as they were applied, with the version of the whole as ETag."""
    organisation = await gateway.organisation.refresh()
    collections: dict[str, Any] = {}
    for one in IN_ORDER_OF_NEED:
        documents = organisation.of(one.kind)
        views = [one.view_of(documents[name]) for name in sorted(documents)]
        collections[one.path.replace("-", "_")] = tuple(views)
    view = OrganisationView(version=organisation.version, **collections)
    return answer(view, 200, {"ETag": f'"{organisation.version}"'})


async def dry_run(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """What would become of documents if they were applied in this order."""
    wanted = bodies.decode(msgspec.json.encode(call.body), _request)
    organisation = await gateway.organisation.refresh()
    products = await reported_products(gateway)
    rehearsing = Rehearsing(
        organisation,
        products,
        force=call.truth("force"),
        networks=gateway.settings.networks,
    )
    return answer(Rehearsal(items=tuple(rehearsing.apply(one) for one in wanted.items)))
