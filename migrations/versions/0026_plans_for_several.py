"""For how many more than its preemptor a plan made room."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    """None, of those that are known."""
    execute("ALTER TABLE gateway.preemption ADD COLUMN followers integer NOT NULL DEFAULT 0")


def downgrade() -> None:
    """Drop it."""
    execute("ALTER TABLE gateway.preemption DROP COLUMN followers")
