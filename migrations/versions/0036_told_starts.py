"""What workloads were told of their start, by basis, until it is scored against what happened."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0036"
down_revision = "0035"

TABLE_SQL = """
CREATE TABLE gateway.told_start (
    workload_id text NOT NULL,
    basis text NOT NULL,
    p50_ms bigint NOT NULL,
    p90_ms bigint NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (workload_id, basis)
);
GRANT SELECT, INSERT, DELETE ON gateway.told_start TO muster_gateway
"""


def upgrade() -> None:
    """Make the table and the rights of the role."""
    execute(TABLE_SQL)


def downgrade() -> None:
    """Drop it: what was told until now is not scored."""
    execute("DROP TABLE gateway.told_start")
