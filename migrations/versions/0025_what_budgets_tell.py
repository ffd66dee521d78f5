"""What a team has spent of its budget, where its last warning was kept.

Warnings are not rewritten: quota tells all of it when it starts.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0025"
down_revision = "0024"

TABLE_SQL = """
CREATE TABLE gateway.{table} (
    team text PRIMARY KEY,
    body text NOT NULL,
    at_ms bigint NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON gateway.{table} TO muster_gateway;
"""


def upgrade() -> None:
    """One table for the other."""
    execute("DROP TABLE gateway.budget_warning")
    execute(TABLE_SQL.format(table="budget"))


def downgrade() -> None:
    """Back to warnings, without those there were."""
    execute("DROP TABLE gateway.budget")
    execute(TABLE_SQL.format(table="budget_warning"))
