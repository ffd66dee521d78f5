"""Rooms that are kept for preemptors while their victims leave (docs/adr/0024).

A reservation is not a charge: the ledger holds the devices for the victims until these are gone.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0009"
down_revision = "0008"

TABLE_SQL = """
CREATE TABLE placement.reservation (
    workload_id text PRIMARY KEY,
    plan_id text NOT NULL,
    queue text NOT NULL,
    flavor text NOT NULL,
    expires_at_ms bigint NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON placement.reservation TO muster_placement;
"""


def upgrade() -> None:
    """Make the table."""
    execute(TABLE_SQL)


def downgrade() -> None:
    """Drop it: what was reserved is anybody's."""
    execute("DROP TABLE placement.reservation")
