"""Starts that were promised, so that a restart keeps them (docs/adr/0025).

At most a few rows: who waits at the head, when he was told to start, and on which nodes.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0018"
down_revision = "0017"

TABLE_SQL = """
CREATE TABLE placement.promise (
    workload_id text PRIMARY KEY,
    body text NOT NULL,
    epoch bigint NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON placement.promise TO muster_placement;
"""


def upgrade() -> None:
    """Make the table."""
    execute(TABLE_SQL)


def downgrade() -> None:
    """Drop it: promises are made anew."""
    execute("DROP TABLE placement.promise")
