"""Gangs that change their size while they run: rows by rank, intervals by size, the binder's goal.

The ledger gives back the highest ranks of a workload and keeps the others. What one attempt held
is an interval for each size it had, so the key of cost and usage history has the number of the
size. A binder that starts again knows which size was wanted, and to which it would fall back.
"""

from __future__ import annotations

from migrations.protocol import execute

revision = "0010"
down_revision = "0009"

COLUMNS_SQL = """
ALTER TABLE placement.workload ADD COLUMN resize text NOT NULL DEFAULT '';

ALTER TABLE binder.attempt
    ADD COLUMN resizing integer NOT NULL DEFAULT 0,
    ADD COLUMN pods_before integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN binder.attempt.resizing IS
    'Number of the resize that is not answered yet; 0 for none.';

ALTER TABLE monitoring.cost_interval ADD COLUMN resizes integer NOT NULL DEFAULT 0;
ALTER TABLE monitoring.cost_interval DROP CONSTRAINT cost_interval_pkey,
    ADD PRIMARY KEY (workload_id, attempt, resizes);

ALTER TABLE quota.usage_history ADD COLUMN resizes integer NOT NULL DEFAULT 0;
ALTER TABLE quota.usage_history DROP CONSTRAINT usage_history_pkey,
    ADD PRIMARY KEY (workload_id, attempt, resizes);
"""

OLD_ARGUMENTS = """
    node_bodies text[], quota_bodies text[], released text[], released_rows bigint,
    workloads text[], attempts int[], ranks int[],
    nodes text[], gpus int[], teams text[], queues text[], flavors text[], masks int[],
    millis int[], gpu_memories bigint[], cpus bigint[], memories bigint[], held_epoch bigint"""
ARGUMENTS = OLD_ARGUMENTS.replace(
    "released_rows bigint,", "shrunk text[], shrunk_to int[], released_rows bigint,"
)
RELEASE = """
    IF cardinality(released) > 0 THEN
        DELETE FROM placement.allocation WHERE workload_id = ANY (released);
        GET DIAGNOSTICS changed = ROW_COUNT;
        PERFORM placement.expect('released allocations', released_rows, changed);
    END IF;"""
RELEASE_AND_SHRINK = """
    IF cardinality(released) > 0 THEN
        DELETE FROM placement.allocation WHERE workload_id = ANY (released);
        GET DIAGNOSTICS changed = ROW_COUNT;
        gone := changed;
    END IF;
    IF cardinality(shrunk) > 0 THEN
        DELETE FROM placement.allocation a
        USING unnest(shrunk, shrunk_to) AS s(workload, pods_kept)
        WHERE a.workload_id = s.workload AND a.rank >= s.pods_kept;
        GET DIAGNOSTICS changed = ROW_COUNT;
        gone := gone + changed;
    END IF;
    IF cardinality(released) + cardinality(shrunk) > 0 THEN
        PERFORM placement.expect('released allocations', released_rows, gone);
    END IF;"""
CHANGE_LEDGER = """
CREATE FUNCTION placement.change_ledger({arguments}
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE changed bigint; gone bigint := 0;
BEGIN
    IF cardinality(node_bodies) > 0 THEN
        PERFORM placement.put_nodes(node_bodies);
    END IF;
    IF cardinality(quota_bodies) > 0 THEN
        PERFORM placement.put_quotas(quota_bodies);
    END IF;{release}
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
GRANT EXECUTE ON FUNCTION placement.change_ledger TO muster_placement;
"""
OLD_COLUMNS_SQL = """
ALTER TABLE quota.usage_history DROP CONSTRAINT usage_history_pkey,
    ADD PRIMARY KEY (workload_id, attempt);
ALTER TABLE quota.usage_history DROP COLUMN resizes;
ALTER TABLE monitoring.cost_interval DROP CONSTRAINT cost_interval_pkey,
    ADD PRIMARY KEY (workload_id, attempt);
ALTER TABLE monitoring.cost_interval DROP COLUMN resizes;
ALTER TABLE binder.attempt DROP COLUMN resizing, DROP COLUMN pods_before;
ALTER TABLE placement.workload DROP COLUMN resize;
"""


def upgrade() -> None:
    """Add the columns, and let the ledger give back by rank."""
    execute(COLUMNS_SQL)
    execute("DROP FUNCTION placement.change_ledger")
    execute(CHANGE_LEDGER.format(arguments=ARGUMENTS, release=RELEASE_AND_SHRINK))


def downgrade() -> None:
    """Refused by the keys while an attempt has intervals of several sizes."""
    execute("DROP FUNCTION placement.change_ledger")
    execute(CHANGE_LEDGER.format(arguments=OLD_ARGUMENTS, release=RELEASE))
    execute(OLD_COLUMNS_SQL)
