"""What another gateway has accepted and not yet published, which no command may overtake.

Each HTTP process publishes what it accepts in its own order; between two of them there is none.
A cancel that passed its submission would be dropped, and the work would run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from services.gateway.app.context import GatewayContext
from services.gateway.http.problems import unavailable

TRIES: Final = 15
PAUSE_SECONDS: Final = 0.2
"""An idle gateway notes once a second what is published."""
_UNPUBLISHED: Final = (
    "SELECT o.shard, o.key FROM gateway.watermark w JOIN gateway.outbox o"
    " ON o.shard = w.shard AND o.seq > w.acked_seq AND o.seq < w.next_seq"
    " WHERE w.shard LIKE 'http-%' AND w.shard <> $1 AND o.key = ANY($2::text[]) LIMIT 1"
)


async def published_elsewhere(gateway: GatewayContext, workload_ids: Sequence[str]) -> None:
    """Return once all that other gateways accepted about these workloads is in the log.

    Raises:
        Problem: 503 when that takes too long; the same request again is safe.
    """
    own = f"http-{gateway.settings.gateway_shard}"
    ids, tries = list(workload_ids), 0
    while rows := await gateway.reader.fetch(_UNPUBLISHED, own, ids):
        tries += 1
        if tries == TRIES:
            raise unavailable(
                f"gateway {rows[0]['shard']} has accepted something about workload"
                f" {rows[0]['key']} and has not published it yet; nothing was accepted now, ask"
                " again"
            )
        await asyncio.sleep(PAUSE_SECONDS)
