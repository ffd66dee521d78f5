"""Schema of the service monitoring."""

from __future__ import annotations

from migrations.protocol import create_schema, execute

revision = "0006"
down_revision = "0005"

TABLES_SQL = """
"""


def upgrade() -> None:
    """Make the schema, its tables and the rights of its role."""
    create_schema("monitoring", TABLES_SQL)


def downgrade() -> None:
    """Drop the schema with everything in it."""
    execute("DROP SCHEMA monitoring CASCADE")
