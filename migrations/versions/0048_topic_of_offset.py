"""The topic that an offset counts in: one that was deleted and made again has another id.

A version that does not know the column goes on writing: its rows keep the id that they have, or
have none. A row without an id adopts the one that is seen first.
"""

from __future__ import annotations

from migrations.protocol import execute
from migrations.rights import FIRST_SCHEMAS

revision = "0048"
down_revision = "0047"


def upgrade() -> None:
    """One more column, empty until the topic is read again."""
    for schema in FIRST_SCHEMAS:
        execute(f"ALTER TABLE {schema}.consumer_offset ADD COLUMN topic_id text")
        execute(
            f"COMMENT ON COLUMN {schema}.consumer_offset.topic_id IS"
            " 'As kafka-topics --describe tells it; NULL: not known.'"
        )


def downgrade() -> None:
    """Forget the ids: an offset counts in whatever topic has its name."""
    for schema in FIRST_SCHEMAS:
        execute(f"ALTER TABLE {schema}.consumer_offset DROP COLUMN topic_id")
