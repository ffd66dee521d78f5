"""Room on the page for every row's next version, so that updates stay heap-only.

A batch updates all rows of a page at once: with a fillfactor of 70 a third of them found room, the
others cost an entry in each index and a second page of WAL. At 45 all do; the version before is
pruned when the next comes. Only the pages that are written from now on are laid out so.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0007"
down_revision = "0006"

FILLFACTORS = {
    "placement.workload": (70, 45),
    "gateway.workload": (60, 40),
    "quota.pending": (70, 45),
    "binder.attempt": (85, 45),
    "monitoring.cost_interval": (80, 45),
}
"""By table: percent before and after; the gateway's rows grow when they are placed."""


def upgrade() -> None:
    """Set the fillfactors; nothing is rewritten."""
    for table, (_, percent) in FILLFACTORS.items():
        execute(f"ALTER TABLE {table} SET (fillfactor = {percent})")


def downgrade() -> None:
    """Set them back."""
    for table, (percent, _) in FILLFACTORS.items():
        execute(f"ALTER TABLE {table} SET (fillfactor = {percent})")
