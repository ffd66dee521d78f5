"""What the cluster says of a pod, beside the code of the reason.

Rows of before hold it in the place of the code. They stay as they are, so that no large table is
written anew while services run: whoever reads one tells the two apart
(shared/core/recorded_reasons.py).
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0037"
down_revision = "0036"

COLUMNS = (
    ("placement.workload", "text NOT NULL DEFAULT ''"),
    ("gateway.workload", "text"),
    ("gateway.event", "text NOT NULL DEFAULT ''"),
)


def upgrade() -> None:
    """One column in each."""
    for table, kind in COLUMNS:
        execute(f"ALTER TABLE {table} ADD COLUMN pod_reason {kind}")


def downgrade() -> None:
    """Drop them."""
    for table, _ in COLUMNS:
        execute(f"ALTER TABLE {table} DROP COLUMN pod_reason")
