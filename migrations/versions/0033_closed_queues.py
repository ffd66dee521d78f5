"""A deleted queue or cohort that is still in use: the version of its deletion."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    """One column, empty for what is not deleted."""
    execute("ALTER TABLE quota.quota_node ADD COLUMN closed_version bigint")


def downgrade() -> None:
    """Drop it."""
    execute("ALTER TABLE quota.quota_node DROP COLUMN closed_version")
