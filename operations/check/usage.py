"""I19: where GPU-hours went sums to what the cost ledger charges, by attempt and size.

Of what ended the days sum to the interval, to the millisecond; of no day is more told than the
attempt can hold in it. What still runs is told now and then, so its sum is not held to anything.
"""

from __future__ import annotations

from typing import Final

USAGE_QUERIES: Final[dict[str, str]] = {
    "I19_count": "SELECT count(*) AS rows FROM gateway.gpu_usage",
    "I19_sum": """
        SELECT u.workload_id AS subject,
               format('attempt %s, size %s: used, unused and unmeasured sum to %s milli-GPU ms, '
                      'the cost ledger charges %s', u.attempt, u.resizes, u.told,
                      i.gpu_milli::numeric * (i.ended_at_ms - i.started_at_ms)) AS detail
        FROM (SELECT workload_id, attempt, resizes,
                     sum(used::numeric + unused + unmeasured) AS told
              FROM gateway.gpu_usage GROUP BY workload_id, attempt, resizes
              HAVING bool_or(ended)) u
        JOIN monitoring.cost_interval i USING (workload_id, attempt, resizes)
        WHERE i.ended_at_ms IS NOT NULL AND i.started_at_ms IS NOT NULL
          AND u.told <> i.gpu_milli::numeric * (i.ended_at_ms - i.started_at_ms)""",
    "I19_day": """
        SELECT u.workload_id AS subject,
               format('attempt %s, size %s: %s milli-GPU ms are told of day %s, at most %s fit',
                      u.attempt, u.resizes, u.used::numeric + u.unused + u.unmeasured, u.day,
                      i.gpu_milli * 86400000::numeric) AS detail
        FROM gateway.gpu_usage u
        JOIN monitoring.cost_interval i USING (workload_id, attempt, resizes)
        WHERE least(u.used, u.unused, u.unmeasured) < 0
           OR u.used::numeric + u.unused + u.unmeasured > i.gpu_milli * 86400000::numeric""",
}
