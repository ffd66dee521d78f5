"""Promised starts that are not kept and whose owners were not told yet, so that a restart tells.

A promise is given up when its workload waits for quota; its owner hears of it at the next trial.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0038"
down_revision = "0037"

TABLE_SQL = """
CREATE TABLE placement.broken_promise (
    workload_id text PRIMARY KEY,
    body text NOT NULL,
    epoch bigint NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON placement.broken_promise TO muster_placement;
"""


def upgrade() -> None:
    """Make the table."""
    execute(TABLE_SQL)


def downgrade() -> None:
    """Drop it: who was not told yet is not told."""
    execute("DROP TABLE placement.broken_promise")
