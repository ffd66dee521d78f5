"""What people ask next: when a workload is expected to end, and what a queue used over time.

`expected_ms` is null where nobody said; it never changes and has no index: who ends next is
read for all live workloads at once, when somebody asks.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0012"
down_revision = "0011"

TABLE_SQL = """
CREATE TABLE gateway.queue_usage (
    queue text PRIMARY KEY,
    gpu_seconds bigint NOT NULL,
    at_ms bigint NOT NULL,
    half_life_ms bigint NOT NULL
)
"""


def upgrade() -> None:
    """A column without a default rewrites nothing."""
    execute("ALTER TABLE gateway.workload ADD COLUMN expected_ms bigint")
    execute(TABLE_SQL)
    execute("GRANT SELECT, INSERT, UPDATE, DELETE ON gateway.queue_usage TO muster_gateway")


def downgrade() -> None:
    """Drop both."""
    execute("DROP TABLE gateway.queue_usage")
    execute("ALTER TABLE gateway.workload DROP COLUMN expected_ms")
