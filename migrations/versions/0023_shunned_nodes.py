"""Nodes on which work did not start: what speaks against them, who goes round them, what is read.

A node that may be tried again keeps its row in the read model with no time, so facts told twice
change nothing.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0023"
down_revision = "0022"

PLACEMENT_SQL = """
CREATE TABLE placement.suspicion (
    node text PRIMARY KEY,
    body text NOT NULL,
    epoch bigint NOT NULL
);
CREATE TABLE placement.avoided (
    workload_id text PRIMARY KEY,
    body text NOT NULL,
    epoch bigint NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON placement.suspicion, placement.avoided TO muster_placement
"""
GATEWAY_SQL = """
CREATE TABLE gateway.node_shun (
    node text PRIMARY KEY,
    until_ms bigint NOT NULL,
    message text NOT NULL,
    at_ms bigint NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON gateway.node_shun TO muster_gateway
"""


def upgrade() -> None:
    """Make the tables and the rights of their roles."""
    execute(PLACEMENT_SQL)
    execute(GATEWAY_SQL)


def downgrade() -> None:
    """Drop them: every node is tried as if nothing had happened there."""
    execute("DROP TABLE gateway.node_shun")
    execute("DROP TABLE placement.avoided")
    execute("DROP TABLE placement.suspicion")
