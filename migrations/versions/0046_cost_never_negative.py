"""An interval of the cost ledger ends no earlier than it begins.

Clocks that fell have left intervals of less than nothing. They held devices for a time that nobody
knows any more: they end where they begin. The constraint is checked for new rows at once and for
old ones without a lock that writers wait for.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0046"
down_revision = "0045"


def upgrade() -> None:
    """Mend what is there, and let nothing like it in."""
    execute(
        "UPDATE monitoring.cost_interval SET ended_at_ms = started_at_ms"
        " WHERE ended_at_ms < started_at_ms"
    )
    execute(
        "ALTER TABLE monitoring.cost_interval ADD CONSTRAINT cost_end"
        " CHECK (ended_at_ms >= started_at_ms) NOT VALID"
    )
    execute("ALTER TABLE monitoring.cost_interval VALIDATE CONSTRAINT cost_end")


def downgrade() -> None:
    """Let them in again; those that were mended stay so."""
    execute("ALTER TABLE monitoring.cost_interval DROP CONSTRAINT cost_end")
