"""Schema of the service gateway."""

from __future__ import annotations

from migrations.protocol import create_schema, execute

revision = "0001"
down_revision = None

TABLES_SQL = """
"""


def upgrade() -> None:
    """Make the schema, its tables and the rights of its role."""
    create_schema("gateway", TABLES_SQL)


def downgrade() -> None:
    """Drop the schema with everything in it."""
    execute("DROP SCHEMA gateway CASCADE")
