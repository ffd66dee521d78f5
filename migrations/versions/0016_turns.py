"""What placement was told of the use of each queue over time."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Make the table and the rights of the role."""
    execute(
        "CREATE TABLE placement.queue_usage ("
        " queue text PRIMARY KEY,"
        " gpu_seconds bigint NOT NULL CHECK (gpu_seconds >= 0),"
        " at_ms bigint NOT NULL,"
        " half_life_ms bigint NOT NULL CHECK (half_life_ms > 0),"
        " epoch bigint NOT NULL) WITH (fillfactor = 45);"
        "GRANT SELECT, INSERT, UPDATE, DELETE ON placement.queue_usage TO muster_placement"
    )


def downgrade() -> None:
    """Drop it."""
    execute("DROP TABLE placement.queue_usage")
