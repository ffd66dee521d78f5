"""The exit code of the container that failed, beside the reason."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0039"
down_revision = "0038"


def upgrade() -> None:
    """Null in rows of before: not known."""
    execute("ALTER TABLE gateway.workload ADD COLUMN exit_code integer")


def downgrade() -> None:
    """Drop it."""
    execute("ALTER TABLE gateway.workload DROP COLUMN exit_code")
