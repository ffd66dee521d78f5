"""Schema of the service binder."""

from __future__ import annotations

from migrations.protocol import create_schema, execute

revision = "0005"
down_revision = "0004"

TABLES_SQL = """
"""


def upgrade() -> None:
    """Make the schema, its tables and the rights of its role."""
    create_schema("binder", TABLES_SQL)


def downgrade() -> None:
    """Drop the schema with everything in it."""
    execute("DROP SCHEMA binder CASCADE")
