"""The organisation as a whole has a version, as its documents speak of each other."""

from __future__ import annotations

from migrations.protocol import execute

revision = "0031"
down_revision = "0030"

TABLE_SQL = """
CREATE TABLE gateway.organisation (
    id integer PRIMARY KEY CHECK (id = 1),
    version bigint NOT NULL,
    epoch bigint NOT NULL
);
INSERT INTO gateway.organisation SELECT 1, coalesce(sum(version), 0), 0 FROM gateway.document;
GRANT SELECT, INSERT, UPDATE, DELETE ON gateway.organisation TO muster_gateway
"""


def upgrade() -> None:
    """Make the table and the rights of the role."""
    execute(TABLE_SQL)


def downgrade() -> None:
    """Drop it."""
    execute("DROP TABLE gateway.organisation")
