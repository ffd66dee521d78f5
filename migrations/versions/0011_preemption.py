"""Schema of the service preemption: the journal of its memory (shared/runtime/journal.py)."""

from __future__ import annotations

from migrations.protocol import create_schema, execute

revision = "0011"
down_revision = "0010"

TABLES_SQL = """
CREATE TABLE preemption.journal (
    shard text NOT NULL,
    seq bigint NOT NULL,
    entries integer NOT NULL,
    body bytea NOT NULL,
    epoch bigint NOT NULL,
    PRIMARY KEY (shard, seq)
);
ALTER TABLE preemption.journal ALTER COLUMN body SET STORAGE EXTERNAL;
"""


def upgrade() -> None:
    """Make the schema, its table and the rights of its role."""
    create_schema("preemption", TABLES_SQL)


def downgrade() -> None:
    """Drop the schema with everything in it."""
    execute("DROP SCHEMA preemption CASCADE")
