"""What kubelets told of the GPUs that they chose: names, whose they are, what is disputed."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0041"
down_revision = "0040"

TABLE_SQL = """
CREATE TABLE placement.node_devices (
    node text PRIMARY KEY,
    body text NOT NULL,
    epoch bigint NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON placement.node_devices TO muster_placement;
"""


def upgrade() -> None:
    """Make the table."""
    execute(TABLE_SQL)


def downgrade() -> None:
    """Drop it: the ledger stays as it is."""
    execute("DROP TABLE placement.node_devices")
