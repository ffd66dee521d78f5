"""Schema of the service binder."""

from __future__ import annotations

from migrations.protocol import create_schema, execute

revision = "0005"
down_revision = "0004"

TABLES_SQL = """
CREATE TABLE binder.attempt (
    workload_id text NOT NULL,
    attempt integer NOT NULL,
    cell integer NOT NULL,
    epoch bigint NOT NULL,
    team text NOT NULL,
    state text NOT NULL
        CHECK (state IN ('binding', 'bound', 'running', 'finished', 'refused', 'gone')),
    active boolean NOT NULL,
    evicting boolean NOT NULL DEFAULT false,
    grace_seconds integer NOT NULL DEFAULT 0,
    succeeded boolean NOT NULL DEFAULT false,
    reason text NOT NULL DEFAULT '',
    size integer NOT NULL CHECK (size >= 0),
    pods json NOT NULL,
    accepted_at_ms bigint NOT NULL,
    changed_at_ms bigint NOT NULL,
    PRIMARY KEY (workload_id, attempt),
    CHECK (active = (state IN ('binding', 'bound', 'running')))
) WITH (fillfactor = 85);
COMMENT ON TABLE binder.attempt IS
    'One row for each attempt that was commanded; state is the last fact that was told.';
CREATE INDEX attempt_active ON binder.attempt (cell) WHERE active;
CREATE INDEX attempt_never_bound ON binder.attempt (cell) WHERE NOT active AND size = 0;

CREATE TABLE binder.fence (
    cell integer PRIMARY KEY,
    epoch bigint NOT NULL
);
COMMENT ON TABLE binder.fence IS
    'The highest epoch of placement that was seen; commands of a lower one are refused.';
"""


def upgrade() -> None:
    """Make the schema, its tables and the rights of its role."""
    create_schema("binder", TABLES_SQL)


def downgrade() -> None:
    """Drop the schema with everything in it."""
    execute("DROP SCHEMA binder CASCADE")
