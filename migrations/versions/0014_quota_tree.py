"""Borrowing and lending in the last line of defence (docs/adr/0021).

A row of `placement.usage` now counts of a member's use only what exceeds its guaranteed part, and
its limit is the ceiling that the core has worked out: what is owned and may be borrowed. So the
one check `used <= ceiling` refuses, in raw SQL too, whatever breaks a nominal quota, a borrowing
or a lending limit at any level. A statement goes up the tree level by level, all queues at once; a
change of documents counts the rows of the cohorts again from those of their members.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0014"
down_revision = "0013"

COLUMNS_SQL = """
ALTER TABLE placement.usage
    ADD COLUMN gpu_milli_guaranteed bigint NOT NULL DEFAULT 0,
    ADD COLUMN cpu_milli_guaranteed bigint NOT NULL DEFAULT 0,
    ADD COLUMN memory_mib_guaranteed bigint NOT NULL DEFAULT 0;
ALTER TABLE placement.quota_node DROP COLUMN path;
CREATE INDEX quota_node_parent ON placement.quota_node (parent);
CREATE TYPE placement.quota_change AS (
    quota_node text, flavor text, gpu_milli bigint, cpu_milli bigint, memory_mib bigint);
"""

MOVE_SQL = """
CREATE FUNCTION placement.move_usage(moved placement.quota_change[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = placement, pg_temp AS $$
DECLARE changed bigint; above quota_change[];
BEGIN
    WHILE cardinality(moved) > 0 LOOP
        WITH counted AS (
            UPDATE usage u SET
                gpu_milli = u.gpu_milli + d.gpu_milli, cpu_milli = u.cpu_milli + d.cpu_milli,
                memory_mib = u.memory_mib + d.memory_mib,
                gpu_milli_ceiling = CASE WHEN d.gpu_milli >= 0 THEN u.gpu_milli_ceiling
                    ELSE greatest(u.gpu_milli_limit, u.gpu_milli + d.gpu_milli) END,
                cpu_milli_ceiling = CASE WHEN d.cpu_milli >= 0 THEN u.cpu_milli_ceiling
                    ELSE greatest(u.cpu_milli_limit, u.cpu_milli + d.cpu_milli) END,
                memory_mib_ceiling = CASE WHEN d.memory_mib >= 0 THEN u.memory_mib_ceiling
                    ELSE greatest(u.memory_mib_limit, u.memory_mib + d.memory_mib) END
            FROM unnest(moved) AS d
            WHERE u.quota_node = d.quota_node AND u.flavor = d.flavor
            RETURNING u.quota_node, u.flavor,
                greatest(0, u.gpu_milli - u.gpu_milli_guaranteed)
                    - greatest(0, u.gpu_milli - d.gpu_milli - u.gpu_milli_guaranteed) AS gpu_milli,
                greatest(0, u.cpu_milli - u.cpu_milli_guaranteed)
                    - greatest(0, u.cpu_milli - d.cpu_milli - u.cpu_milli_guaranteed) AS cpu_milli,
                greatest(0, u.memory_mib - u.memory_mib_guaranteed)
                    - greatest(0, u.memory_mib - d.memory_mib - u.memory_mib_guaranteed)
                    AS memory_mib)
        SELECT (SELECT count(*) FROM counted), array_agg(p.change) INTO changed, above
        FROM (SELECT (q.parent, c.flavor, sum(c.gpu_milli), sum(c.cpu_milli),
                      sum(c.memory_mib))::quota_change AS change
              FROM counted c JOIN quota_node q ON q.name = c.quota_node
              WHERE q.parent <> ''
              GROUP BY q.parent, c.flavor
              HAVING (sum(c.gpu_milli), sum(c.cpu_milli), sum(c.memory_mib)) <> (0, 0, 0)) p;
        IF changed <> cardinality(moved) THEN
            RAISE EXCEPTION '% (queue or cohort, flavor) charged without quota',
                cardinality(moved) - changed USING ERRCODE = 'MU002';
        END IF;
        moved := above;
    END LOOP;
END $$;
"""

TRIGGERS_SQL = """
CREATE OR REPLACE FUNCTION placement.charge_allocations() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = placement, pg_temp AS $$
DECLARE expected bigint; changed bigint; moved quota_change[];
BEGIN
    UPDATE gpu g SET
        mask = g.mask | d.mask, slices_used = g.slices_used + d.slices,
        milli_used = g.milli_used + d.milli, memory_mib_used = g.memory_mib_used + d.memory_mib,
        shares = g.shares + d.shares,
        share_team = CASE WHEN d.shares = 0 OR d.teams = g.share_team THEN g.share_team
                          WHEN g.share_team = '' THEN d.teams
                          ELSE g.share_team || ',' || d.teams END
    FROM (SELECT node, gpu, bit_or(mask) AS mask, sum(bit_count(mask::bit(8)))::int AS slices,
                 sum(milli)::int AS milli, sum(gpu_memory_mib) AS memory_mib,
                 (count(*) FILTER (WHERE mask = 0))::int AS shares,
                 string_agg(DISTINCT team, ',') FILTER (WHERE mask = 0) AS teams
          FROM changed_rows WHERE gpu >= 0 GROUP BY node, gpu ORDER BY node, gpu) d
    WHERE g.node = d.node AND g.gpu = d.gpu;
    GET DIAGNOSTICS changed = ROW_COUNT;
    SELECT count(DISTINCT (node, gpu)) INTO expected FROM changed_rows WHERE gpu >= 0;
    IF changed <> expected THEN
        RAISE EXCEPTION 'allocation of % GPUs that are not there', expected - changed
            USING ERRCODE = 'MU002';
    END IF;
    UPDATE node n SET cpu_milli_used = n.cpu_milli_used + d.cpu,
                      memory_mib_used = n.memory_mib_used + d.memory
    FROM (SELECT node, sum(cpu_milli) AS cpu, sum(memory_mib) AS memory
          FROM changed_rows GROUP BY node ORDER BY node) d
    WHERE n.name = d.node;
    GET DIAGNOSTICS changed = ROW_COUNT;
    SELECT count(DISTINCT node) INTO expected FROM changed_rows;
    IF changed <> expected THEN
        RAISE EXCEPTION 'allocation on % nodes that are not there', expected - changed
            USING ERRCODE = 'MU002';
    END IF;
    SELECT array_agg((r.queue, r.flavor, r.milli, r.cpu, r.memory)::quota_change) INTO moved
    FROM (SELECT queue, flavor, sum(milli) AS milli, sum(cpu_milli) AS cpu,
                 sum(memory_mib) AS memory
          FROM changed_rows GROUP BY queue, flavor) r;
    PERFORM placement.move_usage(moved);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION placement.release_allocations() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = placement, pg_temp AS $$
DECLARE moved quota_change[];
BEGIN
    UPDATE gpu g SET
        mask = g.mask & ~d.mask, slices_used = g.slices_used - d.slices,
        milli_used = g.milli_used - d.milli, memory_mib_used = g.memory_mib_used - d.memory_mib,
        shares = g.shares - d.shares,
        share_team = CASE WHEN g.shares - d.shares = 0 THEN '' ELSE g.share_team END
    FROM (SELECT node, gpu, bit_or(mask) AS mask, sum(bit_count(mask::bit(8)))::int AS slices,
                 sum(milli)::int AS milli, sum(gpu_memory_mib) AS memory_mib,
                 (count(*) FILTER (WHERE mask = 0))::int AS shares
          FROM changed_rows WHERE gpu >= 0 GROUP BY node, gpu ORDER BY node, gpu) d
    WHERE g.node = d.node AND g.gpu = d.gpu;
    UPDATE node n SET cpu_milli_used = n.cpu_milli_used - d.cpu,
                      memory_mib_used = n.memory_mib_used - d.memory
    FROM (SELECT node, sum(cpu_milli) AS cpu, sum(memory_mib) AS memory
          FROM changed_rows GROUP BY node ORDER BY node) d
    WHERE n.name = d.node;
    SELECT array_agg((r.queue, r.flavor, -r.milli, -r.cpu, -r.memory)::quota_change) INTO moved
    FROM (SELECT queue, flavor, sum(milli) AS milli, sum(cpu_milli) AS cpu,
                 sum(memory_mib) AS memory
          FROM changed_rows GROUP BY queue, flavor) r;
    PERFORM placement.move_usage(moved);
    RETURN NULL;
END $$;
"""

QUOTAS_SQL = """
CREATE FUNCTION placement.recount_usage() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = placement, pg_temp AS $$
DECLARE depths int[]; names text[]; deepest int;
BEGIN
    WITH RECURSIVE below AS (
        SELECT name, 1 AS depth FROM quota_node WHERE parent = ''
        UNION ALL
        SELECT q.name, b.depth + 1 FROM quota_node q JOIN below b ON q.parent = b.name)
    SELECT array_agg(b.name), array_agg(b.depth), max(b.depth) INTO names, depths, deepest
    FROM below b JOIN quota_node q USING (name) WHERE q.kind = 'cohort';
    FOR level IN REVERSE coalesce(deepest, 0)..1 LOOP
        UPDATE usage u SET
            gpu_milli = d.gpu, cpu_milli = d.cpu, memory_mib = d.memory,
            gpu_milli_ceiling = greatest(u.gpu_milli_limit, d.gpu),
            cpu_milli_ceiling = greatest(u.cpu_milli_limit, d.cpu),
            memory_mib_ceiling = greatest(u.memory_mib_limit, d.memory)
        FROM (SELECT v.quota_node, v.flavor,
                     coalesce(sum(greatest(0, c.gpu_milli - c.gpu_milli_guaranteed)), 0) AS gpu,
                     coalesce(sum(greatest(0, c.cpu_milli - c.cpu_milli_guaranteed)), 0) AS cpu,
                     coalesce(sum(greatest(0, c.memory_mib - c.memory_mib_guaranteed)), 0)
                         AS memory
              FROM unnest(names, depths) AS n(name, depth)
              JOIN usage v ON v.quota_node = n.name
              LEFT JOIN quota_node q ON q.parent = n.name
              LEFT JOIN usage c ON c.quota_node = q.name AND c.flavor = v.flavor
              WHERE n.depth = level
              GROUP BY v.quota_node, v.flavor) d
        WHERE u.quota_node = d.quota_node AND u.flavor = d.flavor
          AND (u.gpu_milli, u.cpu_milli, u.memory_mib) IS DISTINCT FROM (d.gpu, d.cpu, d.memory);
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION placement.put_quotas(bodies text[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = placement, pg_temp AS $$
BEGIN
    INSERT INTO quota_node (name, kind, parent, version, body)
    SELECT b->>'name', b->>'kind', b->>'parent', (b->>'version')::bigint, b->>'body'
    FROM (SELECT x::jsonb AS b FROM unnest(bodies) AS x) s
    ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, parent = excluded.parent,
        version = excluded.version, body = excluded.body;
    INSERT INTO usage AS u (quota_node, flavor, gpu_milli_limit, cpu_milli_limit,
        memory_mib_limit, gpu_milli_ceiling, cpu_milli_ceiling, memory_mib_ceiling,
        gpu_milli_guaranteed, cpu_milli_guaranteed, memory_mib_guaranteed)
    SELECT b->>'name', l->>0, (l->>1)::bigint, (l->>2)::bigint, (l->>3)::bigint,
           (l->>1)::bigint, (l->>2)::bigint, (l->>3)::bigint,
           (l->>4)::bigint, (l->>5)::bigint, (l->>6)::bigint
    FROM (SELECT x::jsonb AS b FROM unnest(bodies) AS x) s
    CROSS JOIN LATERAL jsonb_array_elements(b->'limits') AS l
    ON CONFLICT (quota_node, flavor) DO UPDATE SET
        gpu_milli_limit = excluded.gpu_milli_limit, cpu_milli_limit = excluded.cpu_milli_limit,
        memory_mib_limit = excluded.memory_mib_limit,
        gpu_milli_guaranteed = excluded.gpu_milli_guaranteed,
        cpu_milli_guaranteed = excluded.cpu_milli_guaranteed,
        memory_mib_guaranteed = excluded.memory_mib_guaranteed,
        gpu_milli_ceiling = greatest(excluded.gpu_milli_limit, u.gpu_milli),
        cpu_milli_ceiling = greatest(excluded.cpu_milli_limit, u.cpu_milli),
        memory_mib_ceiling = greatest(excluded.memory_mib_limit, u.memory_mib);
    PERFORM placement.recount_usage();
    RETURN cardinality(bodies);
END $$;
"""

RIGHTS_SQL = """
REVOKE EXECUTE ON FUNCTION placement.move_usage(placement.quota_change[]) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION placement.recount_usage() FROM PUBLIC;
"""


def upgrade() -> None:
    """Count what exceeds the guaranteed part; what is charged stays."""
    for sql in (COLUMNS_SQL, MOVE_SQL, TRIGGERS_SQL, QUOTAS_SQL, RIGHTS_SQL):
        execute(sql)


def downgrade() -> None:
    """Refused: the functions of before would count the whole use at every level."""
    raise NotImplementedError("the quota tree cannot go back to sums without lending")
