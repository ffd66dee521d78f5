"""Use over time of each queue, in one row for each.

An account is one number of any length: the sum of all changes of a queue's use, each weighted by
its time (core/usage_history.py).
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Make the table and the rights of its role."""
    execute(
        "CREATE TABLE quota.queue_usage ("
        " queue text PRIMARY KEY,"
        " half_life_ms bigint NOT NULL CHECK (half_life_ms > 0),"
        " origin bigint NOT NULL,"
        " weighted numeric NOT NULL,"
        " changed_at_ms bigint NOT NULL,"
        " epoch bigint NOT NULL) WITH (fillfactor = 45);"
        "GRANT SELECT, INSERT, UPDATE, DELETE ON quota.queue_usage TO muster_quota"
    )


def downgrade() -> None:
    """Drop it."""
    execute("DROP TABLE quota.queue_usage")
