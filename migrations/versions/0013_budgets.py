"""Budgets of teams in quota: what was asked for, what is spent this month, and past prices.

Spending is `rate x now - base` (core/budget.py): the rate follows from what is placed, the bases
are whole numbers of any length.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Make the tables and the rights of the role."""
    execute(
        "CREATE TABLE quota.team ("
        " name text PRIMARY KEY,"
        " version bigint NOT NULL,"
        " budget text NOT NULL,"
        " epoch bigint NOT NULL);"
        "CREATE TABLE quota.team_spending ("
        " team text PRIMARY KEY,"
        " month integer NOT NULL,"
        " gpu_base numeric NOT NULL,"
        " money_base numeric NOT NULL,"
        " warned integer NOT NULL CHECK (warned IN (0, 80, 100)),"
        " epoch bigint NOT NULL) WITH (fillfactor = 45);"
        "CREATE TABLE quota.flavor_price ("
        " flavor text NOT NULL,"
        " version bigint NOT NULL,"
        " applied_at_ms bigint NOT NULL,"
        " microdollars_per_gpu_hour bigint NOT NULL CHECK (microdollars_per_gpu_hour >= 0),"
        " epoch bigint NOT NULL,"
        " PRIMARY KEY (flavor, version));"
        "INSERT INTO quota.flavor_price SELECT name, version, 0,"
        " coalesce((body::json ->> 'price_microdollars_per_gpu_hour')::bigint, 0), epoch"
        " FROM quota.flavor;"
        "GRANT SELECT, INSERT, UPDATE, DELETE"
        " ON quota.team, quota.team_spending, quota.flavor_price TO muster_quota"
    )


def downgrade() -> None:
    """Drop them."""
    execute("DROP TABLE quota.team, quota.team_spending, quota.flavor_price")
