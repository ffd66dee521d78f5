"""Schema of the service notifications: destinations, and what was not delivered yet."""

from __future__ import annotations

from migrations.protocol import create_schema, execute
from migrations.rights import READER, functions_of, service_role

revision = "0054"
down_revision = "0053"

TABLES_SQL = """
CREATE TABLE notifications.destination (
    name text PRIMARY KEY,
    body text NOT NULL,
    next_number bigint NOT NULL,
    dropped bigint NOT NULL DEFAULT 0,
    delivered_at_ms bigint NOT NULL DEFAULT 0,
    failing_since_ms bigint NOT NULL DEFAULT 0,
    problem text NOT NULL DEFAULT ''
);
COMMENT ON TABLE notifications.destination IS
    'Documents of kind Notification in force, and how each destination stands.';
CREATE TABLE notifications.delivery (
    destination text NOT NULL,
    number bigint NOT NULL,
    body text NOT NULL,
    created_at_ms bigint NOT NULL,
    PRIMARY KEY (destination, number)
);
COMMENT ON TABLE notifications.delivery IS
    'Notices that were not delivered yet, in order by number.';
"""
LATER_COLUMNS_SQL = """
ALTER TABLE notifications.lease ADD COLUMN process text NOT NULL DEFAULT '';
ALTER TABLE notifications.consumer_offset ADD COLUMN topic_id text;
COMMENT ON COLUMN notifications.consumer_offset.topic_id IS
    'As kafka-topics --describe tells it; NULL: not known.';
"""
RIGHTS_SQL = """
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA notifications FROM PUBLIC, {role};
GRANT EXECUTE ON FUNCTION {functions} TO {role};
GRANT USAGE ON SCHEMA notifications TO {reader};
GRANT SELECT ON ALL TABLES IN SCHEMA notifications TO {reader};
ALTER DEFAULT PRIVILEGES IN SCHEMA notifications GRANT SELECT ON TABLES TO {reader};
"""
READ_MODEL_SQL = """
CREATE TABLE gateway.destination (
    name text PRIMARY KEY,
    at_ms bigint NOT NULL,
    body text NOT NULL
);
COMMENT ON TABLE gateway.destination IS
    'How destinations of notifications stand, as they told it last.';
GRANT SELECT, INSERT, UPDATE, DELETE ON gateway.destination TO muster_gateway;
GRANT SELECT ON gateway.destination TO {reader};
"""


def upgrade() -> None:
    """Make the schema as 0048 left the others, its tables, and the rights as 0043 gives them."""
    create_schema("notifications", TABLES_SQL)
    execute(LATER_COLUMNS_SQL)
    functions = ", ".join(f"notifications.{name}" for name in functions_of("notifications"))
    role = service_role("notifications")
    execute(RIGHTS_SQL.format(role=role, functions=functions, reader=READER))
    execute(READ_MODEL_SQL.format(reader=READER))


def downgrade() -> None:
    """Drop the schema with everything in it."""
    execute("DROP TABLE gateway.destination; DROP SCHEMA notifications CASCADE")
