"""What agents see of the GPUs of nodes that the cluster watcher told, and of which it told ill."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0044"
down_revision = "0043"

TABLE_SQL = """
CREATE TABLE cluster_watcher.observation (
    node text PRIMARY KEY,
    cell integer NOT NULL,
    at_ms bigint NOT NULL,
    body json NOT NULL
);
COMMENT ON TABLE cluster_watcher.observation IS
    'What the agent of each told node sees of its GPUs; a node that is gone has no row.';
GRANT SELECT, INSERT, UPDATE, DELETE ON cluster_watcher.observation TO muster_cluster_watcher;
ALTER TABLE cluster_watcher.node ADD COLUMN ill json NOT NULL DEFAULT '{}';
COMMENT ON COLUMN cluster_watcher.node.ill IS
    'GPUs that were told to be ill, as their agent said: the reason by index.';
"""


def upgrade() -> None:
    """Make the table and the column."""
    execute(TABLE_SQL)


def downgrade() -> None:
    """Drop them: what is told next is what the API server knows."""
    execute("ALTER TABLE cluster_watcher.node DROP COLUMN ill")
    execute("DROP TABLE cluster_watcher.observation")
