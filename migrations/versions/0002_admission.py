"""Schema of the service admission."""

from __future__ import annotations

from migrations.protocol import create_schema, execute

revision = "0002"
down_revision = "0001"

TABLES_SQL = """
"""


def upgrade() -> None:
    """Make the schema, its tables and the rights of its role."""
    create_schema("admission", TABLES_SQL)


def downgrade() -> None:
    """Drop the schema with everything in it."""
    execute("DROP SCHEMA admission CASCADE")
