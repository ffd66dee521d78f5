"""Schema of the service cluster_watcher."""

from __future__ import annotations

from migrations.protocol import create_schema, execute

revision = "0034"
down_revision = "0033"

TABLES_SQL = """
CREATE TABLE cluster_watcher.node (
    name text PRIMARY KEY,
    cell integer NOT NULL,
    generation bigint NOT NULL,
    body json NOT NULL
);
COMMENT ON TABLE cluster_watcher.node IS
    'What was told last of each node of the Kubernetes cluster; a node that is gone has no row.';
"""


def upgrade() -> None:
    """Make the schema, its tables and the rights of its role."""
    create_schema("cluster_watcher", TABLES_SQL)


def downgrade() -> None:
    """Drop the schema with everything in it."""
    execute("DROP SCHEMA cluster_watcher CASCADE")
