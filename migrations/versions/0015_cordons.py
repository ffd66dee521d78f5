"""Nodes on which placement starts nothing: cordoned, drained, or about to be taken away."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0015"
down_revision = "0014"

TABLE_SQL = """
CREATE TABLE placement.cordon (
    node text PRIMARY KEY,
    body text NOT NULL,
    epoch bigint NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON placement.cordon TO muster_placement;
"""


def upgrade() -> None:
    """Make the table."""
    execute(TABLE_SQL)


def downgrade() -> None:
    """Drop it: all nodes take work as their agents say."""
    execute("DROP TABLE placement.cordon")
