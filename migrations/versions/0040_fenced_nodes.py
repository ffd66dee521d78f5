"""Of attempts that are being stopped: nodes whose machines are off, by an operator's word."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0040"
down_revision = "0039"


def upgrade() -> None:
    """One column."""
    execute("ALTER TABLE binder.attempt ADD COLUMN fenced_nodes text[] NOT NULL DEFAULT '{}'")


def downgrade() -> None:
    """Drop it."""
    execute("ALTER TABLE binder.attempt DROP COLUMN fenced_nodes")
