"""What the gateway forgets: old events and accepted requests, and workloads that ended long ago.

A key that is used again after its workload was forgotten is accepted here and changes nothing:
admission keeps its verdicts, and refuses to queue the same id twice.
"""

from __future__ import annotations

from typing import Final

from shared.runtime.trimming import Trim

# The newest event stays, whatever its age: the next number follows it. What is told of a workload
# that is alive stays, too: it may say why it waits.
EVENTS: Final = """
WITH page AS (
    SELECT seq, workload_id, at_ms FROM gateway.event
    WHERE seq > $3 AND seq < (SELECT max(seq) FROM gateway.event) AND $4::text = ''
    ORDER BY seq LIMIT $2
), old AS (
    SELECT seq, workload_id FROM page WHERE at_ms < $1
), gone AS (
    DELETE FROM gateway.event e USING old o WHERE e.seq = o.seq AND NOT EXISTS
        (SELECT FROM gateway.workload w WHERE w.id = o.workload_id AND w.live)
    RETURNING e.seq
)
SELECT (SELECT count(*) FROM old) AS seen, (SELECT count(*) FROM gone) AS gone,
       (SELECT max(seq) FROM page) AS number, '' AS text
"""
REQUESTS: Final = """
WITH page AS (
    SELECT at_ms, workload_id FROM gateway.accepted_request
    WHERE at_ms < $1 AND (at_ms, workload_id) > ($3, $4)
    ORDER BY at_ms, workload_id LIMIT $2
), gone AS (
    DELETE FROM gateway.accepted_request a USING page p
    WHERE a.workload_id = p.workload_id AND NOT EXISTS
        (SELECT FROM gateway.workload w WHERE w.id = p.workload_id AND w.live)
    RETURNING a.workload_id
), last AS (
    SELECT at_ms, workload_id FROM page ORDER BY at_ms DESC, workload_id DESC LIMIT 1
)
SELECT (SELECT count(*) FROM page) AS seen, (SELECT count(*) FROM gone) AS gone,
       (SELECT at_ms FROM last) AS number, (SELECT workload_id FROM last) AS text
"""
WORKLOADS: Final = """
WITH page AS (
    SELECT submitted_at_ms, id FROM gateway.workload
    WHERE submitted_at_ms < $1 AND (submitted_at_ms, id) > ($3, $4)
    ORDER BY submitted_at_ms, id LIMIT $2
), gone AS (
    DELETE FROM gateway.workload w USING page p
    WHERE w.id = p.id AND NOT w.live AND w.changed_at_ms < $1 RETURNING w.id
), specs AS (
    DELETE FROM gateway.workload_spec s USING gone g WHERE s.id = g.id
), refusals AS (
    DELETE FROM gateway.preemption_refusal r USING gone g WHERE r.workload_id = g.id
), requests AS (
    DELETE FROM gateway.accepted_request a USING gone g WHERE a.workload_id = g.id
), last AS (
    SELECT submitted_at_ms, id FROM page ORDER BY submitted_at_ms DESC, id DESC LIMIT 1
)
SELECT (SELECT count(*) FROM page) AS seen, (SELECT count(*) FROM gone) AS gone,
       (SELECT submitted_at_ms FROM last) AS number, (SELECT id FROM last) AS text
"""

PREEMPTIONS: Final = """
WITH page AS (
    SELECT at_ms, plan_id FROM gateway.preemption
    WHERE at_ms < $1 AND (at_ms, plan_id) > ($3, $4) ORDER BY at_ms, plan_id LIMIT $2
), gone AS (
    DELETE FROM gateway.preemption e USING page p WHERE e.plan_id = p.plan_id RETURNING e.plan_id
), last AS (
    SELECT at_ms, plan_id FROM page ORDER BY at_ms DESC, plan_id DESC LIMIT 1
)
SELECT (SELECT count(*) FROM page) AS seen, (SELECT count(*) FROM gone) AS gone,
       (SELECT at_ms FROM last) AS number, (SELECT plan_id FROM last) AS text
"""
# The oldest go first and do not come back, so a page needs no place at which the last one ended.
USAGE: Final = """
WITH page AS (
    SELECT day, workload_id, attempt, resizes FROM gateway.gpu_usage
    WHERE day < $1::bigint / 86400000 AND (day, workload_id) >= ($3::bigint, $4)
    ORDER BY day, workload_id LIMIT $2
), gone AS (
    DELETE FROM gateway.gpu_usage u USING page p
    WHERE (u.day, u.workload_id, u.attempt, u.resizes)
        = (p.day, p.workload_id, p.attempt, p.resizes)
    RETURNING u.day
), last AS (
    SELECT day, workload_id FROM page ORDER BY day DESC, workload_id DESC LIMIT 1
)
SELECT (SELECT count(*) FROM page) AS seen, (SELECT count(*) FROM gone) AS gone,
       (SELECT day::bigint FROM last) AS number, (SELECT workload_id FROM last) AS text
"""

WORK_CLASSES: Final = """
WITH page AS (
    SELECT week, cell, key FROM gateway.work_class
    WHERE week < $1::bigint / 86400000 - 7 AND (week, key) >= ($3::bigint, $4)
    ORDER BY week, key LIMIT $2
), gone AS (
    DELETE FROM gateway.work_class u USING page p
    WHERE (u.week, u.cell, u.key) = (p.week, p.cell, p.key)
    RETURNING u.week
), last AS (
    SELECT week, key FROM page ORDER BY week DESC, key DESC LIMIT 1
)
SELECT (SELECT count(*) FROM page) AS seen, (SELECT count(*) FROM gone) AS gone,
       (SELECT week::bigint FROM last) AS number, (SELECT key FROM last) AS text
"""


def gateway_trims(*, events_days: int, workloads_days: int, usage_days: int) -> tuple[Trim, ...]:
    """All trims of the gateway's schema."""
    return (
        Trim(name="event", sql=EVENTS, keep_days=events_days),
        Trim(name="accepted_request", sql=REQUESTS, keep_days=events_days),
        Trim(name="workload", sql=WORKLOADS, keep_days=workloads_days),
        Trim(name="preemption", sql=PREEMPTIONS, keep_days=workloads_days),
        Trim(name="gpu_usage", sql=USAGE, keep_days=usage_days),
        Trim(name="work_class", sql=WORK_CLASSES, keep_days=usage_days),
    )
