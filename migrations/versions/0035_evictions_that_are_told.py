"""An index of the evictions of a workload, which `why` tells however many reasons came after."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    """Few events are evictions, so it costs those that write no other entry."""
    execute(
        "CREATE INDEX event_evicting ON gateway.event (workload_id, seq)"
        " WHERE state = 'evicting' AND version > 0"
    )


def downgrade() -> None:
    """Drop it."""
    execute("DROP INDEX gateway.event_evicting")
