"""Schema of the service native: groups of pods that others made, and the teams of namespaces."""

from __future__ import annotations

from migrations.protocol import create_schema, execute
from migrations.rights import READER, functions_of, service_role

revision = "0049"
down_revision = "0048"

TABLES_SQL = """
CREATE TABLE native.pod_group (
    key text PRIMARY KEY,
    cell integer NOT NULL,
    workload_id text NOT NULL,
    team text NOT NULL,
    restart integer NOT NULL,
    state text NOT NULL CHECK (state IN ('submitted', 'rejected', 'cancelled', 'ended')),
    uids text[] NOT NULL,
    reason text NOT NULL DEFAULT '',
    message text NOT NULL DEFAULT '',
    changed_at_ms bigint NOT NULL
);
CREATE INDEX ON native.pod_group (workload_id);
COMMENT ON TABLE native.pod_group IS
    'Groups of pods of others that were submitted as a workload; one without pods has no row.';
CREATE TABLE native.document (
    kind text NOT NULL,
    name text NOT NULL,
    version bigint NOT NULL,
    namespace text NOT NULL DEFAULT '',
    present boolean NOT NULL,
    PRIMARY KEY (kind, name)
);
COMMENT ON TABLE native.document IS
    'Teams with their namespaces, and priority classes, as the organisation told them last.';
"""
LATER_COLUMNS_SQL = """
ALTER TABLE native.lease ADD COLUMN process text NOT NULL DEFAULT '';
ALTER TABLE native.consumer_offset ADD COLUMN topic_id text;
COMMENT ON COLUMN native.consumer_offset.topic_id IS
    'As kafka-topics --describe tells it; NULL: not known.';
"""
RIGHTS_SQL = """
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA native FROM PUBLIC, {role};
GRANT EXECUTE ON FUNCTION {functions} TO {role};
GRANT USAGE ON SCHEMA native TO {reader};
GRANT SELECT ON ALL TABLES IN SCHEMA native TO {reader};
ALTER DEFAULT PRIVILEGES IN SCHEMA native GRANT SELECT ON TABLES TO {reader};
"""


def upgrade() -> None:
    """Make the schema as 0048 left the others, its tables, and the rights as 0043 gives them."""
    create_schema("native", TABLES_SQL)
    execute(LATER_COLUMNS_SQL)
    functions = ", ".join(f"native.{name}" for name in functions_of("native"))
    execute(RIGHTS_SQL.format(role=service_role("native"), functions=functions, reader=READER))


def downgrade() -> None:
    """Drop the schema with everything in it."""
    execute("DROP SCHEMA native CASCADE")
