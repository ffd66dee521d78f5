"""Schema of the service placement: the ledger of devices and quota, and every workload's state.

PostgreSQL is the last line (ADR 4): an allocation row for each (pod, GPU); triggers apply
the sum of a statement to the GPU, node and usage rows, whose checks refuse an overlap, an
over-commitment and a broken quota even in raw SQL. The role of the service can neither update
those rows nor touch the triggers; it changes allocations through `change_ledger`, which puts nodes
and quota first and releases before it charges, because all may concern one GPU in one unit.
"""

from __future__ import annotations

from migrations.protocol import create_schema, execute

revision = "0004"
down_revision = "0003"

TABLES_SQL = """
CREATE TABLE placement.workload (
    id text PRIMARY KEY,
    team text NOT NULL,
    queue text NOT NULL,
    cell integer NOT NULL,
    state text NOT NULL,
    over boolean NOT NULL
        GENERATED ALWAYS AS (state IN ('succeeded', 'failed', 'cancelled')) STORED,
    version bigint NOT NULL,
    attempt integer NOT NULL,
    priority bigint NOT NULL,
    failures integer NOT NULL,
    submitted_at_ms bigint NOT NULL,
    changed_at_ms bigint NOT NULL,
    deadline_kind text NOT NULL,
    deadline_ms bigint NOT NULL,
    then_held boolean NOT NULL,
    reason text NOT NULL,
    message text NOT NULL,
    nomination integer NOT NULL,
    nominated text NOT NULL,
    body text NOT NULL,
    placement text NOT NULL,
    epoch bigint NOT NULL
) WITH (fillfactor = 70);
-- On a column that changes once: updates of the state stay on their page.
CREATE INDEX workload_alive ON placement.workload (id) WHERE NOT over;
CREATE INDEX workload_over ON placement.workload (submitted_at_ms, id) WHERE over;

CREATE TABLE placement.node (
    name text PRIMARY KEY,
    generation bigint NOT NULL,
    present boolean NOT NULL,
    ready boolean NOT NULL,
    cpu_milli bigint NOT NULL,
    memory_mib bigint NOT NULL,
    cpu_milli_used bigint NOT NULL DEFAULT 0,
    memory_mib_used bigint NOT NULL DEFAULT 0,
    body text NOT NULL,
    CONSTRAINT node_cpu
        CHECK (cpu_milli_used >= 0 AND (cpu_milli_used <= cpu_milli OR NOT present)),
    CONSTRAINT node_memory
        CHECK (memory_mib_used >= 0 AND (memory_mib_used <= memory_mib OR NOT present))
) WITH (fillfactor = 70);

CREATE TABLE placement.gpu (
    node text NOT NULL,
    gpu integer NOT NULL,
    memory_mib bigint NOT NULL,
    healthy boolean NOT NULL DEFAULT true,
    mask integer NOT NULL DEFAULT 0,
    slices_used integer NOT NULL DEFAULT 0,
    milli_used integer NOT NULL DEFAULT 0,
    memory_mib_used bigint NOT NULL DEFAULT 0,
    shares integer NOT NULL DEFAULT 0,
    share_team text NOT NULL DEFAULT '',
    PRIMARY KEY (node, gpu),
    CONSTRAINT gpu_slices CHECK (bit_count(mask::bit(8)) = slices_used AND mask BETWEEN 0 AND 255),
    CONSTRAINT gpu_milli CHECK (milli_used BETWEEN 0 AND 1000),
    CONSTRAINT gpu_memory
        CHECK (memory_mib_used >= 0 AND (shares = 0 OR memory_mib_used <= memory_mib)),
    CONSTRAINT gpu_mode CHECK (shares >= 0 AND (shares = 0 OR slices_used = 0)),
    CONSTRAINT gpu_team CHECK ((shares = 0) = (share_team = '') AND share_team NOT LIKE '%,%')
) WITH (fillfactor = 70);

CREATE TABLE placement.allocation (
    workload_id text NOT NULL,
    attempt integer NOT NULL,
    rank integer NOT NULL,
    node text NOT NULL,
    gpu integer NOT NULL,
    team text NOT NULL,
    queue text NOT NULL,
    flavor text NOT NULL,
    mask integer NOT NULL,
    milli integer NOT NULL,
    gpu_memory_mib bigint NOT NULL,
    cpu_milli bigint NOT NULL,
    memory_mib bigint NOT NULL,
    epoch bigint NOT NULL,
    PRIMARY KEY (workload_id, rank, gpu, mask, attempt),
    CONSTRAINT allocation_amounts CHECK (
        milli BETWEEN 0 AND 1000 AND mask BETWEEN 0 AND 255
        AND gpu_memory_mib >= 0 AND cpu_milli >= 0 AND memory_mib >= 0)
);

CREATE TABLE placement.quota_node (
    name text PRIMARY KEY,
    kind text NOT NULL,
    parent text NOT NULL,
    path text[] NOT NULL,
    version bigint NOT NULL,
    body text NOT NULL
);
CREATE TABLE placement.usage (
    quota_node text NOT NULL,
    flavor text NOT NULL,
    gpu_milli bigint NOT NULL DEFAULT 0,
    cpu_milli bigint NOT NULL DEFAULT 0,
    memory_mib bigint NOT NULL DEFAULT 0,
    gpu_milli_limit bigint NOT NULL,
    cpu_milli_limit bigint NOT NULL,
    memory_mib_limit bigint NOT NULL,
    gpu_milli_ceiling bigint NOT NULL,
    cpu_milli_ceiling bigint NOT NULL,
    memory_mib_ceiling bigint NOT NULL,
    PRIMARY KEY (quota_node, flavor),
    CONSTRAINT usage_gpu CHECK (gpu_milli BETWEEN 0 AND gpu_milli_ceiling),
    CONSTRAINT usage_cpu CHECK (cpu_milli BETWEEN 0 AND cpu_milli_ceiling),
    CONSTRAINT usage_memory CHECK (memory_mib BETWEEN 0 AND memory_mib_ceiling)
) WITH (fillfactor = 50);

CREATE FUNCTION placement.charge_allocations() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = placement, pg_temp AS $$
DECLARE expected bigint; changed bigint;
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
    UPDATE usage u SET gpu_milli = u.gpu_milli + d.milli, cpu_milli = u.cpu_milli + d.cpu,
                       memory_mib = u.memory_mib + d.memory
    FROM (SELECT p.name, r.flavor, sum(r.milli) AS milli, sum(r.cpu_milli) AS cpu,
                 sum(r.memory_mib) AS memory
          FROM (SELECT queue, flavor, sum(milli) AS milli, sum(cpu_milli) AS cpu_milli,
                       sum(memory_mib) AS memory_mib
                FROM changed_rows GROUP BY queue, flavor) r
          JOIN quota_node q ON q.name = r.queue CROSS JOIN LATERAL unnest(q.path) AS p(name)
          GROUP BY p.name, r.flavor) d
    WHERE u.quota_node = d.name AND u.flavor = d.flavor;
    SELECT count(*) INTO expected FROM (SELECT DISTINCT queue, flavor FROM changed_rows) r
    WHERE NOT EXISTS
        (SELECT 1 FROM usage u WHERE u.quota_node = r.queue AND u.flavor = r.flavor);
    IF expected > 0 THEN
        RAISE EXCEPTION '% (queue, flavor) charged without quota', expected
            USING ERRCODE = 'MU002';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION placement.release_allocations() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = placement, pg_temp AS $$
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
    UPDATE usage u SET
        gpu_milli = u.gpu_milli - d.milli, cpu_milli = u.cpu_milli - d.cpu,
        memory_mib = u.memory_mib - d.memory,
        gpu_milli_ceiling = greatest(u.gpu_milli_limit, u.gpu_milli - d.milli),
        cpu_milli_ceiling = greatest(u.cpu_milli_limit, u.cpu_milli - d.cpu),
        memory_mib_ceiling = greatest(u.memory_mib_limit, u.memory_mib - d.memory)
    FROM (SELECT p.name, r.flavor, sum(r.milli) AS milli, sum(r.cpu_milli) AS cpu,
                 sum(r.memory_mib) AS memory
          FROM (SELECT queue, flavor, sum(milli) AS milli, sum(cpu_milli) AS cpu_milli,
                       sum(memory_mib) AS memory_mib
                FROM changed_rows GROUP BY queue, flavor) r
          JOIN quota_node q ON q.name = r.queue CROSS JOIN LATERAL unnest(q.path) AS p(name)
          GROUP BY p.name, r.flavor) d
    WHERE u.quota_node = d.name AND u.flavor = d.flavor;
    RETURN NULL;
END $$;

CREATE TRIGGER charge AFTER INSERT ON placement.allocation
    REFERENCING NEW TABLE AS changed_rows
    FOR EACH STATEMENT EXECUTE FUNCTION placement.charge_allocations();
CREATE TRIGGER release AFTER DELETE ON placement.allocation
    REFERENCING OLD TABLE AS changed_rows
    FOR EACH STATEMENT EXECUTE FUNCTION placement.release_allocations();
CREATE FUNCTION placement.refuse_update() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'an allocation is released and charged anew, never changed';
END $$;
CREATE TRIGGER frozen BEFORE UPDATE ON placement.allocation
    FOR EACH STATEMENT EXECUTE FUNCTION placement.refuse_update();

CREATE FUNCTION placement.put_nodes(bodies text[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = placement, pg_temp AS $$
BEGIN
    INSERT INTO node AS n (name, generation, present, ready, cpu_milli, memory_mib, body)
    SELECT b->>'name', (b->>'generation')::bigint, (b->>'present')::boolean,
           (b->>'ready')::boolean, (b->>'cpu_milli')::bigint, (b->>'memory_mib')::bigint,
           b->>'body'
    FROM (SELECT x::jsonb AS b FROM unnest(bodies) AS x) s
    ON CONFLICT (name) DO UPDATE SET generation = excluded.generation,
        present = excluded.present, ready = excluded.ready,
        cpu_milli = greatest(excluded.cpu_milli, n.cpu_milli_used),
        memory_mib = greatest(excluded.memory_mib, n.memory_mib_used), body = excluded.body;
    INSERT INTO gpu AS g (node, gpu, memory_mib, healthy)
    SELECT b->>'name', (d->>0)::int, (d->>1)::bigint, (d->>2)::boolean
    FROM (SELECT x::jsonb AS b FROM unnest(bodies) AS x) s
    CROSS JOIN LATERAL jsonb_array_elements(b->'gpus') AS d
    ON CONFLICT (node, gpu) DO UPDATE SET healthy = excluded.healthy,
        memory_mib = greatest(excluded.memory_mib, g.memory_mib_used);
    RETURN cardinality(bodies);
END $$;

CREATE FUNCTION placement.put_quotas(bodies text[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = placement, pg_temp AS $$
DECLARE fresh boolean;
BEGIN
    SELECT EXISTS (
        SELECT 1 FROM (SELECT x::jsonb AS b FROM unnest(bodies) AS x) s
        CROSS JOIN LATERAL jsonb_array_elements(b->'limits') AS l
        WHERE NOT EXISTS (SELECT 1 FROM usage u
                          WHERE u.quota_node = b->>'name' AND u.flavor = l->>0)) INTO fresh;
    INSERT INTO quota_node (name, kind, parent, path, version, body)
    SELECT b->>'name', b->>'kind', b->>'parent',
           ARRAY(SELECT jsonb_array_elements_text(b->'path')), (b->>'version')::bigint, b->>'body'
    FROM (SELECT x::jsonb AS b FROM unnest(bodies) AS x) s
    ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, parent = excluded.parent,
        path = excluded.path, version = excluded.version, body = excluded.body;
    INSERT INTO usage AS u (quota_node, flavor, gpu_milli_limit, cpu_milli_limit,
        memory_mib_limit, gpu_milli_ceiling, cpu_milli_ceiling, memory_mib_ceiling)
    SELECT b->>'name', l->>0, (l->>1)::bigint, (l->>2)::bigint, (l->>3)::bigint,
           (l->>1)::bigint, (l->>2)::bigint, (l->>3)::bigint
    FROM (SELECT x::jsonb AS b FROM unnest(bodies) AS x) s
    CROSS JOIN LATERAL jsonb_array_elements(b->'limits') AS l
    ON CONFLICT (quota_node, flavor) DO UPDATE SET
        gpu_milli_limit = excluded.gpu_milli_limit, cpu_milli_limit = excluded.cpu_milli_limit,
        memory_mib_limit = excluded.memory_mib_limit,
        gpu_milli_ceiling = greatest(excluded.gpu_milli_limit, u.gpu_milli),
        cpu_milli_ceiling = greatest(excluded.cpu_milli_limit, u.cpu_milli),
        memory_mib_ceiling = greatest(excluded.memory_mib_limit, u.memory_mib);
    -- The tree may have changed, or what is charged already has a row only now: count again.
    IF cardinality(bodies) > 1 OR fresh THEN
        UPDATE usage u SET
            gpu_milli = d.milli, cpu_milli = d.cpu, memory_mib = d.memory,
            gpu_milli_ceiling = greatest(u.gpu_milli_limit, d.milli),
            cpu_milli_ceiling = greatest(u.cpu_milli_limit, d.cpu),
            memory_mib_ceiling = greatest(u.memory_mib_limit, d.memory)
        FROM (SELECT v.quota_node, v.flavor, coalesce(sum(a.milli), 0) AS milli,
                     coalesce(sum(a.cpu_milli), 0) AS cpu, coalesce(sum(a.memory_mib), 0) AS memory
              FROM usage v
              LEFT JOIN quota_node q ON v.quota_node = ANY (q.path)
              LEFT JOIN allocation a ON a.queue = q.name AND a.flavor = v.flavor
              GROUP BY v.quota_node, v.flavor) d
        WHERE u.quota_node = d.quota_node AND u.flavor = d.flavor
          AND (u.gpu_milli, u.cpu_milli, u.memory_mib) IS DISTINCT FROM (d.milli, d.cpu, d.memory);
    END IF;
    RETURN cardinality(bodies);
END $$;

CREATE FUNCTION placement.change_ledger(
    node_bodies text[], quota_bodies text[], released text[], released_rows bigint,
    workloads text[], attempts int[], ranks int[],
    nodes text[], gpus int[], teams text[], queues text[], flavors text[], masks int[],
    millis int[], gpu_memories bigint[], cpus bigint[], memories bigint[], held_epoch bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE changed bigint;
BEGIN
    IF cardinality(node_bodies) > 0 THEN
        PERFORM placement.put_nodes(node_bodies);
    END IF;
    IF cardinality(quota_bodies) > 0 THEN
        PERFORM placement.put_quotas(quota_bodies);
    END IF;
    IF cardinality(released) > 0 THEN
        DELETE FROM placement.allocation WHERE workload_id = ANY (released);
        GET DIAGNOSTICS changed = ROW_COUNT;
        PERFORM placement.expect('released allocations', released_rows, changed);
    END IF;
    IF cardinality(workloads) > 0 THEN
        INSERT INTO placement.allocation (workload_id, attempt, rank, node, gpu, team, queue,
            flavor, mask, milli, gpu_memory_mib, cpu_milli, memory_mib, epoch)
        SELECT w, a, r, n, g, t, q, f, m, l, gm, c, me, held_epoch
        FROM unnest(workloads, attempts, ranks, nodes, gpus, teams, queues, flavors, masks,
                    millis, gpu_memories, cpus, memories)
             AS x(w, a, r, n, g, t, q, f, m, l, gm, c, me);
    END IF;
    RETURN cardinality(workloads);
END $$;
"""

GRANTS_SQL = """
REVOKE INSERT, UPDATE, DELETE ON placement.node, placement.gpu, placement.quota_node,
    placement.usage FROM muster_placement;
REVOKE UPDATE ON placement.allocation FROM muster_placement;
"""


def upgrade() -> None:
    """Make the schema, its tables and the rights of its role."""
    create_schema("placement", TABLES_SQL)
    execute(GRANTS_SQL)


def downgrade() -> None:
    """Drop the schema with everything in it."""
    execute("DROP SCHEMA placement CASCADE")
