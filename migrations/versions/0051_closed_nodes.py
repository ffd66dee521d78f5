"""What placement keeps work off, as the cluster watcher shows it by taints."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0051"
down_revision = "0050"

SQL = """
CREATE TABLE cluster_watcher.closed_node (
    node text PRIMARY KEY,
    cell integer NOT NULL,
    reason text NOT NULL,
    gpus json NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON cluster_watcher.closed_node TO muster_cluster_watcher
"""


def upgrade() -> None:
    """Make the table and the right of its role."""
    execute(SQL)


def downgrade() -> None:
    """Drop it; taints that are on nodes stay there."""
    execute("DROP TABLE cluster_watcher.closed_node")
