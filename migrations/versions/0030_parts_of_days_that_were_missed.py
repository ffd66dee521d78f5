"""Parts of days are made also when rows of these days came before them."""

from __future__ import annotations

from migrations.protocol import execute, maintain_sql

revision = "0030"
down_revision = "0029"

SCHEMAS = ("gateway", "admission", "quota", "placement", "preemption", "binder", "monitoring")


def upgrade() -> None:
    """Replace the function in every schema, and make what is missing."""
    for schema in SCHEMAS:
        execute(maintain_sql(schema))


def downgrade() -> None:
    """It stays: the tables are as they were."""
