"""What nodes of the quota tree had beyond their part: quota's accounts, and what placement heard.

The two sums of an account have more digits than a bigint (core/usage_history.py).
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0021"
down_revision = "0020"

QUOTA_SQL = """
CREATE TABLE quota.node_debt (
    node text PRIMARY KEY,
    half_life_ms bigint NOT NULL CHECK (half_life_ms > 0),
    origin bigint NOT NULL,
    weighted numeric NOT NULL,
    rate bigint NOT NULL,
    epoch bigint NOT NULL
) WITH (fillfactor = 45)
"""
PLACEMENT_SQL = """
CREATE TABLE placement.node_debt (
    node text PRIMARY KEY,
    debt bigint NOT NULL,
    at_ms bigint NOT NULL,
    epoch bigint NOT NULL
) WITH (fillfactor = 45)
"""


def upgrade() -> None:
    """Make both tables and the rights of their roles."""
    execute(QUOTA_SQL)
    execute("GRANT SELECT, INSERT, UPDATE, DELETE ON quota.node_debt TO muster_quota")
    execute(PLACEMENT_SQL)
    execute("GRANT SELECT, INSERT, UPDATE, DELETE ON placement.node_debt TO muster_placement")


def downgrade() -> None:
    """Drop both."""
    execute("DROP TABLE placement.node_debt")
    execute("DROP TABLE quota.node_debt")
