"""GPUs that take no new work, as what their kubelet told cannot be, for people to read.

A node whose GPUs take work again keeps its row in the read model with none, so facts told twice
change nothing.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0045"
down_revision = "0044"

TABLE_SQL = """
CREATE TABLE gateway.node_dispute (
    node text PRIMARY KEY,
    gpus text NOT NULL,
    message text NOT NULL,
    at_ms bigint NOT NULL
);
COMMENT ON COLUMN gateway.node_dispute.gpus IS 'Their indexes, as a JSON array.';
GRANT SELECT, INSERT, UPDATE, DELETE ON gateway.node_dispute TO muster_gateway
"""


def upgrade() -> None:
    """Make the table and the rights of its role."""
    execute(TABLE_SQL)


def downgrade() -> None:
    """Drop it: such GPUs seem to take work."""
    execute("DROP TABLE gateway.node_dispute")
