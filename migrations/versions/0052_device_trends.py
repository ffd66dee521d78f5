"""Trends of devices as people read them: what slowly changes for the worse, and how much.

A trend that is over keeps its row, so facts told twice change nothing.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0052"
down_revision = "0051"

GATEWAY_SQL = """
CREATE TABLE gateway.device_trend (
    node text NOT NULL,
    gpu integer NOT NULL,
    trend text NOT NULL,
    is_open boolean NOT NULL,
    value double precision NOT NULL,
    limit_value double precision NOT NULL,
    since_ms bigint NOT NULL,
    message text NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (node, gpu, trend)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON gateway.device_trend TO muster_gateway
"""


def upgrade() -> None:
    """Make the table and the rights of its role."""
    execute(GATEWAY_SQL)


def downgrade() -> None:
    """Drop it: trends that are open are not shown any more."""
    execute("DROP TABLE gateway.device_trend")
