"""Usage in the order of workloads: which are the largest is found without a sort on disk."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0058"
down_revision = "0057"


def upgrade() -> None:
    """Make the index; it holds the amounts, so that no row is read beside it."""
    execute(
        "CREATE INDEX gpu_usage_by_workload ON gateway.gpu_usage (workload_id, day)"
        " INCLUDE (used, unused, unmeasured)"
    )


def downgrade() -> None:
    """Drop it."""
    execute("DROP INDEX gateway.gpu_usage_by_workload")
