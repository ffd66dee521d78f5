"""Schema of the service placement."""

from __future__ import annotations

from migrations.protocol import create_schema, execute

revision = "0004"
down_revision = "0003"

TABLES_SQL = """
"""


def upgrade() -> None:
    """Make the schema, its tables and the rights of its role."""
    create_schema("placement", TABLES_SQL)


def downgrade() -> None:
    """Drop the schema with everything in it."""
    execute("DROP SCHEMA placement CASCADE")
