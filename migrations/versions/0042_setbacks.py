"""Setbacks in a row of a workload, and since when its last attempt runs (core/backoff.py).

Both are 0 in rows of before: their next setback counts as the first.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0042"
down_revision = "0041"

COLUMNS = (
    ("setbacks", "integer NOT NULL DEFAULT 0"),
    ("running_at_ms", "bigint NOT NULL DEFAULT 0"),
)


def upgrade() -> None:
    """One column for each."""
    for name, kind in COLUMNS:
        execute(f"ALTER TABLE placement.workload ADD COLUMN {name} {kind}")


def downgrade() -> None:
    """Drop them."""
    for name, _ in COLUMNS:
        execute(f"ALTER TABLE placement.workload DROP COLUMN {name}")
