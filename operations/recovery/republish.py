"""Sends what is in the outboxes to Kafka once more: consumers drop what they have handled.

Each outbox goes by its numbers, so the order of every producer holds. A batch is not sent before
the one before it is acknowledged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from operations.recovery.outboxes import Chosen, Outboxes
from shared.ports.publisher import Publisher

TELL_EVERY_ROWS: Final = 10_000
Tell = Callable[[str], None]


async def republish(
    found: Outboxes, publisher: Publisher, chosen: Chosen, tell: Tell
) -> dict[str, int]:
    """Send the rows of all outboxes; how many by topic. `tell` hears of the progress.

    Raises:
        Transient: the broker is away or refuses; to begin anew is harmless.
    """
    sent: Counter[str] = Counter()
    for schema, shard in await found.shards():
        count = 0
        async for rows in found.rows(schema, shard, chosen):
            if rows:
                await publisher.publish(rows)
            sent.update(row.topic for row in rows)
            before, count = count, count + len(rows)
            if before // TELL_EVERY_ROWS != count // TELL_EVERY_ROWS:
                tell(f"{schema}/{shard}: {count:,} sent")
        if count:
            tell(f"{schema}/{shard}: {count:,} sent, all of it")
    return dict(sorted(sent.items()))
