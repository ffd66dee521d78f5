"""Schema of the service admission: who submitted what, and what it is judged by.

A workload has one row, from its verdict on: the judge of idempotency. `parked` holds submissions
whose refusal could still be turned by facts under way; `document` and `node` are the latest facts.
"""

from __future__ import annotations

from migrations.protocol import create_schema, execute

revision = "0002"
down_revision = "0001"

TABLES_SQL = """
CREATE TABLE admission.workload (
    id text PRIMARY KEY,
    team text NOT NULL,
    body_hash text NOT NULL,
    state text NOT NULL CHECK (state IN ('accepted', 'rejected')),
    message text NOT NULL,
    errors text NOT NULL,
    at_ms bigint NOT NULL,
    epoch bigint NOT NULL
);
CREATE TABLE admission.parked (
    id text PRIMARY KEY,
    due_ms bigint NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL
);
CREATE TABLE admission.document (
    kind text NOT NULL,
    name text NOT NULL,
    version bigint NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL,
    PRIMARY KEY (kind, name)
);
CREATE TABLE admission.node (
    name text PRIMARY KEY,
    generation bigint NOT NULL,
    present boolean NOT NULL,
    grown_at_ms bigint NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL
);
CREATE TABLE admission.team_count (
    team text PRIMARY KEY,
    accepted bigint NOT NULL,
    ended bigint NOT NULL,
    epoch bigint NOT NULL
) WITH (fillfactor = 50);
"""


def upgrade() -> None:
    """Make the schema, its tables and the rights of its role."""
    create_schema("admission", TABLES_SQL)


def downgrade() -> None:
    """Drop the schema with everything in it."""
    execute("DROP SCHEMA admission CASCADE")
