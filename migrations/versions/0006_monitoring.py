"""Schema of the service monitoring: the cost ledger, prices, and the journal of its memory.

An interval is one attempt on its devices. Start and end come in two facts, in any order: each
fills its own columns, so whatever is redelivered or overtaken leaves the same row. Sums are of
integers; money is rounded once. `core/cost.py` says the same, and a test holds both together.
"""

from __future__ import annotations

from migrations.protocol import create_schema, execute

revision = "0006"
down_revision = "0005"

TABLES_SQL = """
CREATE TABLE monitoring.cost_interval (
    workload_id text NOT NULL,
    attempt integer NOT NULL,
    team text NOT NULL,
    queue text NOT NULL,
    flavor text,
    gpu_milli bigint,
    started_at_ms bigint,
    ended_at_ms bigint,
    epoch bigint NOT NULL,
    PRIMARY KEY (workload_id, attempt),
    CONSTRAINT cost_start CHECK (
        (flavor IS NULL) = (started_at_ms IS NULL) AND (gpu_milli IS NULL) = (flavor IS NULL)
        AND gpu_milli >= 0)
) WITH (fillfactor = 80);
CREATE TABLE monitoring.flavor_price (
    flavor text NOT NULL,
    version bigint NOT NULL,
    applied_at_ms bigint NOT NULL,
    microdollars_per_gpu_hour bigint NOT NULL,
    PRIMARY KEY (flavor, version)
);
CREATE TABLE monitoring.journal (
    shard text NOT NULL,
    seq bigint NOT NULL,
    entries integer NOT NULL,
    body bytea NOT NULL,
    epoch bigint NOT NULL,
    PRIMARY KEY (shard, seq)
);
ALTER TABLE monitoring.journal ALTER COLUMN body SET STORAGE EXTERNAL;

-- The last version applied by then; before the first, the first; 0 without any.
CREATE FUNCTION monitoring.price_at(wanted_flavor text, at_ms bigint) RETURNS bigint
LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT microdollars_per_gpu_hour FROM monitoring.flavor_price
         WHERE flavor = wanted_flavor AND applied_at_ms <= at_ms ORDER BY version DESC LIMIT 1),
        (SELECT microdollars_per_gpu_hour FROM monitoring.flavor_price
         WHERE flavor = wanted_flavor ORDER BY version LIMIT 1),
        0)
$$;

-- What each team held in [from_ms, until_ms), cut at midnight UTC.
CREATE FUNCTION monitoring.cost_by_team_and_day(from_ms bigint, until_ms bigint)
RETURNS TABLE (team text, day date, flavor text, gpu_milli_ms numeric, microdollars numeric)
LANGUAGE sql STABLE AS $$
    WITH held AS (
        SELECT i.team, i.flavor, i.gpu_milli, i.started_at_ms,
               greatest(i.started_at_ms, from_ms) AS low,
               least(coalesce(i.ended_at_ms, until_ms), until_ms) AS high
        FROM monitoring.cost_interval i
        WHERE i.started_at_ms < until_ms AND coalesce(i.ended_at_ms, until_ms) > from_ms
    ), pieces AS (
        SELECT h.team, h.flavor, h.started_at_ms, d.number AS day_number,
               sum(h.gpu_milli * (least(h.high, (d.number + 1) * 86400000)
                                  - greatest(h.low, d.number * 86400000))) AS amount
        FROM held h,
             generate_series(h.low / 86400000, (h.high - 1) / 86400000) AS d(number)
        WHERE h.low < h.high
        GROUP BY h.team, h.flavor, h.started_at_ms, d.number
    )
    SELECT p.team, date '1970-01-01' + p.day_number::integer, p.flavor, sum(p.amount),
           round(sum(p.amount * monitoring.price_at(p.flavor, p.started_at_ms)) / 3600000000)
    FROM pieces p
    GROUP BY p.team, p.day_number, p.flavor
$$;

CREATE VIEW monitoring.cost AS
    SELECT team, day, flavor, gpu_milli_ms, microdollars,
           round(gpu_milli_ms / 3600000000, 6) AS gpu_hours,
           round(microdollars / 1000000, 2) AS dollars
    FROM monitoring.cost_by_team_and_day(0, (extract(epoch FROM now()) * 1000)::bigint);
"""


def upgrade() -> None:
    """Make the schema, its tables and the rights of its role."""
    create_schema("monitoring", TABLES_SQL)


def downgrade() -> None:
    """Drop the schema with everything in it."""
    execute("DROP SCHEMA monitoring CASCADE")
