"""What like work makes of its GPUs in a week: the evidence for smaller forms.

The body is the fact, as the evidence is read as a whole.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0055"
down_revision = "0054"

GATEWAY_SQL = """
CREATE TABLE gateway.work_class (
    week integer NOT NULL,
    cell integer NOT NULL,
    key text NOT NULL,
    team text NOT NULL,
    body text NOT NULL,
    at_ms bigint NOT NULL,
    PRIMARY KEY (week, cell, key)
);
CREATE INDEX work_class_by_team ON gateway.work_class (team, week);
GRANT SELECT, INSERT, UPDATE, DELETE ON gateway.work_class TO muster_gateway
"""


def upgrade() -> None:
    """Make the table and the rights of its role."""
    execute(GATEWAY_SQL)


def downgrade() -> None:
    """Drop it: weeks before are not told again."""
    execute("DROP TABLE gateway.work_class")
