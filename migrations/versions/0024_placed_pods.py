"""How many pods a workload has: fewer than were asked for, of an elastic gang.

Of the ended ones before nothing is told: a read model of millions is not rewritten for it.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0024"
down_revision = "0023"

COUNT_SQL = """
UPDATE gateway.workload SET placed_pods = json_array_length(placement::json -> 'pods')
WHERE live AND placement <> ''
"""


def upgrade() -> None:
    """The column, filled for those that live."""
    execute("ALTER TABLE gateway.workload ADD COLUMN placed_pods integer")
    execute(COUNT_SQL)


def downgrade() -> None:
    """Drop it."""
    execute("ALTER TABLE gateway.workload DROP COLUMN placed_pods")
