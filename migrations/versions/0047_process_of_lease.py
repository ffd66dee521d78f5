"""The process that holds a lease, so that a second one of the same slot can name it.

A version that does not know the column leaves it as it is: the process named then has ended, or
is not known, and its slot is taken at once as before.
"""

from __future__ import annotations

from migrations.protocol import execute
from migrations.rights import FIRST_SCHEMAS

revision = "0047"
down_revision = "0046"


def upgrade() -> None:
    """One more column, empty until its holder renews."""
    for schema in FIRST_SCHEMAS:
        execute(f"ALTER TABLE {schema}.lease ADD COLUMN process text NOT NULL DEFAULT ''")


def downgrade() -> None:
    """Forget the processes."""
    for schema in FIRST_SCHEMAS:
        execute(f"ALTER TABLE {schema}.lease DROP COLUMN process")
