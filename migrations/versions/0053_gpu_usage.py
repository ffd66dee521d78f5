"""GPU-hours as people read them: what each attempt held in a day, and what of it was used.

Amounts are milli-GPU milliseconds. An attempt that changes its size has a row for each, as in the
cost ledger. Name and labels stay here when the workload is forgotten.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0053"
down_revision = "0052"

GATEWAY_SQL = """
CREATE TABLE gateway.gpu_usage (
    day integer NOT NULL,
    workload_id text NOT NULL,
    attempt integer NOT NULL,
    resizes integer NOT NULL,
    team text NOT NULL,
    queue text NOT NULL,
    namespace text NOT NULL,
    flavor text NOT NULL,
    name text NOT NULL,
    labels jsonb NOT NULL,
    used bigint NOT NULL CHECK (used >= 0),
    unused bigint NOT NULL CHECK (unused >= 0),
    unmeasured bigint NOT NULL CHECK (unmeasured >= 0),
    price_microdollars_per_gpu_hour bigint NOT NULL,
    ended boolean NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (day, workload_id, attempt, resizes)
);
CREATE INDEX gpu_usage_by_team ON gateway.gpu_usage (team, day);
GRANT SELECT, INSERT, UPDATE, DELETE ON gateway.gpu_usage TO muster_gateway
"""


def upgrade() -> None:
    """Make the table and the rights of its role."""
    execute(GATEWAY_SQL)


def downgrade() -> None:
    """Drop it: nothing before is told again but what still runs."""
    execute("DROP TABLE gateway.gpu_usage")
