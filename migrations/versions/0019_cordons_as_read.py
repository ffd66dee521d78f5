"""Cordons as the gateway shows them: why nothing is started on a node, and when it is gone.

A node that takes work again keeps its row with no reason, so facts told twice change nothing.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0019"
down_revision = "0018"

TABLE_SQL = """
CREATE TABLE gateway.node_cordon (
    node text PRIMARY KEY,
    reason text NOT NULL,
    message text NOT NULL,
    gone_at_ms bigint NOT NULL,
    at_ms bigint NOT NULL
)
"""


def upgrade() -> None:
    """Make the table."""
    execute(TABLE_SQL)
    execute("GRANT SELECT, INSERT, UPDATE, DELETE ON gateway.node_cordon TO muster_gateway")


def downgrade() -> None:
    """Drop it."""
    execute("DROP TABLE gateway.node_cordon")
