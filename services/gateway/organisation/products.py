"""The products that nodes report, by which those that a flavor names are judged."""

from __future__ import annotations

from collections.abc import Collection as Names
from typing import Final

from services.gateway.app.context import GatewayContext

_PRODUCTS: Final = (
    "SELECT DISTINCT body::jsonb ->> 'product' AS product FROM gateway.node"
    " WHERE NOT removed AND body <> ''"
)


async def reported_products(gateway: GatewayContext) -> Names[str]:
    """All that are reported now."""
    return [row["product"] for row in await gateway.reader.fetch(_PRODUCTS)]
