"""When each group of native pods was submitted: the place that an evicted pod leaves."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0057"
down_revision = "0056"


def upgrade() -> None:
    """Add the time; 0 of groups that were submitted before."""
    execute(
        "ALTER TABLE native.pod_group ADD COLUMN submitted_at_ms bigint NOT NULL DEFAULT 0;"
        " COMMENT ON COLUMN native.pod_group.submitted_at_ms IS"
        " 'As the workload has it, Unix milliseconds; 0: not known.'"
    )


def downgrade() -> None:
    """Drop it."""
    execute("ALTER TABLE native.pod_group DROP COLUMN submitted_at_ms")
