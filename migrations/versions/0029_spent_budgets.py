"""What a spent budget leaves of the growth of gangs that run, as placement heard it."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0029"
down_revision = "0028"

TABLE_SQL = """
CREATE TABLE placement.team_budget (
    team text PRIMARY KEY,
    at_ms bigint NOT NULL,
    at_limit text NOT NULL,
    spot_flavors text[] NOT NULL,
    epoch bigint NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON placement.team_budget TO muster_placement
"""


def upgrade() -> None:
    """Make the table and the rights of the role."""
    execute(TABLE_SQL)


def downgrade() -> None:
    """Drop it."""
    execute("DROP TABLE placement.team_budget")
