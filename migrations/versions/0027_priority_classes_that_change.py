"""The priority class that a workload was given since, and what else follows the fact that says so.

Rows of before have the class that stands in the spec; of facts that came early nobody knows the
priority any more.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0027"
down_revision = "0026"

COLUMNS = (
    ("placement.workload", "priority_class", "text NOT NULL DEFAULT ''"),
    ("gateway.workload", "priority_class", "text"),
    ("quota.early", "priority", "bigint"),
    ("admission.workload", "on_shares", "boolean NOT NULL DEFAULT false"),
)


def upgrade() -> None:
    """One column in each."""
    for table, name, kind in COLUMNS:
        execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")


def downgrade() -> None:
    """Drop them."""
    for table, name, _ in COLUMNS:
        execute(f"ALTER TABLE {table} DROP COLUMN {name}")
