"""Schema of the service quota: the tree, who waits or runs in it, and what was used when.

A workload has one row in `pending` while it is alive: in a queue, being tried, or charged. What
it used is a row of `usage_history` for each attempt, exact from the ledger's facts; `early` holds
facts that came before their workload.
"""

from __future__ import annotations

from migrations.protocol import create_schema, execute

revision = "0003"
down_revision = "0002"

TABLES_SQL = """
CREATE TABLE quota.pending (
    workload_id text PRIMARY KEY,
    team text NOT NULL,
    queue text NOT NULL,
    phase text NOT NULL
        CHECK (phase IN ('waiting', 'offered', 'refused', 'idle', 'placed')),
    held boolean NOT NULL,
    hold_asked boolean NOT NULL,
    cancelled boolean NOT NULL,
    priority bigint NOT NULL,
    submitted_at_ms bigint NOT NULL,
    version bigint NOT NULL,
    nomination integer NOT NULL,
    flavor text NOT NULL,
    gpu_milli bigint NOT NULL,
    cpu_milli bigint NOT NULL,
    memory_mib bigint NOT NULL,
    attempt integer NOT NULL,
    placed_at_ms bigint NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL,
    CHECK (gpu_milli >= 0 AND cpu_milli >= 0 AND memory_mib >= 0)
) WITH (fillfactor = 70);
CREATE TABLE quota.early (
    workload_id text PRIMARY KEY,
    version bigint NOT NULL,
    held boolean NOT NULL,
    gone boolean NOT NULL,
    epoch bigint NOT NULL
);
CREATE TABLE quota.quota_node (
    name text PRIMARY KEY,
    kind text NOT NULL CHECK (kind IN ('queue', 'cohort')),
    version bigint NOT NULL,
    revision bigint NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL
);
CREATE TABLE quota.flavor (
    name text PRIMARY KEY,
    version bigint NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL
);
CREATE TABLE quota.usage_history (
    workload_id text NOT NULL,
    attempt integer NOT NULL,
    team text NOT NULL,
    queue text NOT NULL,
    flavor text NOT NULL,
    gpu_milli bigint NOT NULL,
    cpu_milli bigint NOT NULL,
    memory_mib bigint NOT NULL,
    started_at_ms bigint NOT NULL,
    ended_at_ms bigint NOT NULL,
    epoch bigint NOT NULL,
    PRIMARY KEY (workload_id, attempt)
);
CREATE TABLE quota.team_ended (
    team text PRIMARY KEY,
    ended bigint NOT NULL,
    epoch bigint NOT NULL
) WITH (fillfactor = 50);
"""


def upgrade() -> None:
    """Make the schema, its tables and the rights of its role."""
    create_schema("quota", TABLES_SQL)


def downgrade() -> None:
    """Drop the schema with everything in it."""
    execute("DROP SCHEMA quota CASCADE")
