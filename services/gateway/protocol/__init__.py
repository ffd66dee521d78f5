"""HTTP itself: what holds for every answer, whatever the route (RFC 9110).

`Runner` serves an application within the limits of `OpenConnections`, and answers as problems what
is no HTTP; `finished` gives an answer
its entity tag, or replaces it by 304, and compresses it; `versions_named` reads `If-Match`.
"""

from __future__ import annotations

from services.gateway.protocol.address import check_address
from services.gateway.protocol.broken import SERVER_NAME
from services.gateway.protocol.compression import compress
from services.gateway.protocol.documented import NOT_MODIFIED, headers_of
from services.gateway.protocol.entity_tags import live_tag, revalidated, versions_named
from services.gateway.protocol.open_connections import OpenConnections
from services.gateway.protocol.parameters import Parameters
from services.gateway.protocol.serving import Runner

__all__ = [
    "NOT_MODIFIED",
    "SERVER_NAME",
    "OpenConnections",
    "Parameters",
    "Runner",
    "check_address",
    "compress",
    "headers_of",
    "live_tag",
    "revalidated",
    "versions_named",
]
