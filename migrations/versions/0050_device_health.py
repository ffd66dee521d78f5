"""Devices on the ladder of health: what placement knows of them, and what people read.

A device that is healthy again keeps its row in the read model, so facts told twice change nothing.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0050"
down_revision = "0049"

PLACEMENT_SQL = """
CREATE TABLE placement.device_health (
    device text PRIMARY KEY,
    body text NOT NULL,
    epoch bigint NOT NULL
);
COMMENT ON COLUMN placement.device_health.device IS 'NODE/INDEX of the GPU.';
GRANT SELECT, INSERT, UPDATE, DELETE ON placement.device_health TO muster_placement
"""
GATEWAY_SQL = """
CREATE TABLE gateway.device_health (
    node text NOT NULL,
    gpu integer NOT NULL,
    state text NOT NULL,
    rule text NOT NULL,
    message text NOT NULL,
    until_ms bigint NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (node, gpu)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON gateway.device_health TO muster_gateway
"""


def upgrade() -> None:
    """Make the tables and the rights of their roles."""
    execute(PLACEMENT_SQL)
    execute(GATEWAY_SQL)


def downgrade() -> None:
    """Drop them: every device takes work, whatever was told of it."""
    execute("DROP TABLE gateway.device_health")
    execute("DROP TABLE placement.device_health")
