"""One row for each accepted eviction plan, and the last warning about each team's budget."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0017"
down_revision = "0016"

TABLES_SQL = """
CREATE TABLE gateway.preemption (
    plan_id text PRIMARY KEY,
    workload_id text NOT NULL,
    team text NOT NULL,
    queue text NOT NULL,
    flavor text NOT NULL,
    rule text NOT NULL,
    at_ms bigint NOT NULL,
    inline boolean NOT NULL,
    victims text NOT NULL,
    alternatives text NOT NULL,
    expired_reason text NOT NULL DEFAULT '',
    expired_at_ms bigint
);
CREATE INDEX preemption_by_time ON gateway.preemption (at_ms, plan_id);
CREATE TABLE gateway.budget_warning (
    team text PRIMARY KEY,
    body text NOT NULL,
    at_ms bigint NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON gateway.budget_warning TO muster_gateway;
GRANT SELECT, INSERT, UPDATE, DELETE ON gateway.preemption TO muster_gateway;
"""


def upgrade() -> None:
    """Make the tables."""
    execute(TABLES_SQL)


def downgrade() -> None:
    """Drop them."""
    execute("DROP TABLE gateway.preemption, gateway.budget_warning")
