"""Why nobody is evicted for workloads that wait, as preemption told it last."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0028"
down_revision = "0027"

TABLE_SQL = """
CREATE TABLE gateway.preemption_refusal (
    workload_id text PRIMARY KEY,
    queue text NOT NULL,
    version bigint NOT NULL,
    at_ms bigint NOT NULL,
    body text NOT NULL
);
CREATE INDEX preemption_refusal_by_queue ON gateway.preemption_refusal (queue);
GRANT SELECT, INSERT, UPDATE, DELETE ON gateway.preemption_refusal TO muster_gateway
"""


def upgrade() -> None:
    """Make the table and the rights of the role."""
    execute(TABLE_SQL)


def downgrade() -> None:
    """Drop it."""
    execute("DROP TABLE gateway.preemption_refusal")
