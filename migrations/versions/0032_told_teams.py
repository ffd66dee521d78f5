"""Teams whose results topic tells what becomes of their work, and since when."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0032"
down_revision = "0031"

TABLE_SQL = """
CREATE TABLE admission.told_team (
    team text PRIMARY KEY,
    since_ms bigint NOT NULL,
    epoch bigint NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON admission.told_team TO muster_admission
"""


def upgrade() -> None:
    """Make the table and the rights of the role."""
    execute(TABLE_SQL)


def downgrade() -> None:
    """Drop it."""
    execute("DROP TABLE admission.told_team")
