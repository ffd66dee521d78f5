"""Whether one node is ready, asked of the API server: what was heard of it may be late."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from shared.adapters.kubernetes.connection import Connection
from shared.adapters.kubernetes.nodes.objects import NodeObject
from shared.adapters.kubernetes.nodes.reading import readiness_of
from shared.adapters.kubernetes.objects import decoder
from shared.adapters.kubernetes.pins.store import ApiRefusal

_OK: Final = 200
_NOT_FOUND: Final = 404
_nodes: Final = decoder(NodeObject)


async def is_ready(connection: Connection, name: str) -> bool:
    """Whether the node says that it is ready; one that does not exist is not.

    Raises:
        NoAnswer: it could not be asked.
        Refused: the API server does not tell.
    """
    answer = await connection.request("GET", f"/api/v1/nodes/{quote(name, safe='')}")
    if answer.status == _NOT_FOUND:
        return False
    if answer.status != _OK:
        raise ApiRefusal(answer)
    return readiness_of(_nodes.decode(answer.body)).ready
