"""What each node of the quota tree owes or is owed, as people read it (docs/adr/0035)."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0022"
down_revision = "0021"

TABLE_SQL = """
CREATE TABLE gateway.node_debt (
    node text PRIMARY KEY,
    debt_millionths bigint NOT NULL,
    at_ms bigint NOT NULL
)
"""


def upgrade() -> None:
    """The table and the rights on it."""
    execute(TABLE_SQL)
    execute("GRANT SELECT, INSERT, UPDATE, DELETE ON gateway.node_debt TO muster_gateway")


def downgrade() -> None:
    """Drop it."""
    execute("DROP TABLE gateway.node_debt")
