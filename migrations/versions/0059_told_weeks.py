"""Weeks of which the report was told: each once, whichever gateway comes first."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0059"
down_revision = "0058"

TABLE_SQL = """
CREATE TABLE gateway.told_week (
    week integer PRIMARY KEY,
    at_ms bigint NOT NULL,
    epoch bigint NOT NULL
);
COMMENT ON COLUMN gateway.told_week.week IS 'Its Monday, in days since 1970-01-01 (UTC).';
GRANT SELECT, INSERT ON gateway.told_week TO muster_gateway
"""


def upgrade() -> None:
    """Make the table and the rights of the role."""
    execute(TABLE_SQL)


def downgrade() -> None:
    """Drop it: the last week may be told once more."""
    execute("DROP TABLE gateway.told_week")
