"""I1, I2, I3, I5 and I13 by SQL on the ledger of placement, and against the log where it helps.

A query `<id>_<name>` returns violations as (subject, detail); `<id>_count` how much was looked
at. The sums are taken anew from the allocation rows: what triggers and checks of the database
keep is what is being checked.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from operations.check.causes import BIND, POD_ENDS, POD_FACTS, RESIZE_ENDS, attempt_of
from operations.check.charges import HOLDS, closed
from operations.check.model import Evidence, Findings, Payload

LEDGER_QUERIES: Final[dict[str, str]] = {
    "I1_count": "SELECT count(*) AS rows FROM placement.allocation",
    "I1_slice": """
        SELECT node || '/gpu' || gpu AS subject, 'slice ' || slice || ' is held by '
               || string_agg(workload_id || '/' || attempt || '-' || rank, ' and ') AS detail
        FROM placement.allocation, generate_series(0, 7) AS slice
        WHERE gpu >= 0 AND mask & (1 << slice) <> 0
        GROUP BY node, gpu, slice HAVING count(*) > 1""",
    "I1_share": """
        SELECT a.node || '/gpu' || a.gpu AS subject,
               sum(a.milli) || ' milli-GPU of 1000 and ' || sum(a.gpu_memory_mib) || ' MiB of '
               || coalesce(min(g.memory_mib), 0) || ' are held' AS detail
        FROM placement.allocation a LEFT JOIN placement.gpu g USING (node, gpu)
        WHERE a.gpu >= 0 GROUP BY a.node, a.gpu
        HAVING sum(a.milli) > 1000
            OR (bool_or(a.mask = 0) AND sum(a.gpu_memory_mib) > coalesce(min(g.memory_mib), 0))""",
    "I1_mixed": """
        SELECT node || '/gpu' || gpu AS subject,
               CASE WHEN bool_or(mask <> 0) THEN 'a time-sliced share lies beside slices'
                    ELSE 'time-sliced between the teams ' || string_agg(DISTINCT team, ', ')
               END AS detail
        FROM placement.allocation WHERE gpu >= 0
        GROUP BY node, gpu
        HAVING bool_or(mask = 0) AND (bool_or(mask <> 0) OR count(DISTINCT team) > 1)""",
    "I2_count": "SELECT count(*) AS rows FROM placement.usage",
    "I2_sum": """
        SELECT u.quota_node || '/' || u.flavor AS subject,
               format('usage says %s/%s/%s milli-GPU/milli-CPU/MiB, allocations, and the members '
                      'above what is guaranteed to them, sum to %s/%s/%s',
                      u.gpu_milli, u.cpu_milli, u.memory_mib,
                      coalesce(s.gpu, 0), coalesce(s.cpu, 0), coalesce(s.memory, 0)) AS detail
        FROM placement.usage u LEFT JOIN (
            SELECT name, flavor, sum(gpu) AS gpu, sum(cpu) AS cpu, sum(memory) AS memory FROM (
                SELECT queue AS name, flavor, milli AS gpu, cpu_milli AS cpu, memory_mib AS memory
                FROM placement.allocation
                UNION ALL
                SELECT q.parent, m.flavor, greatest(0, m.gpu_milli - m.gpu_milli_guaranteed),
                       greatest(0, m.cpu_milli - m.cpu_milli_guaranteed),
                       greatest(0, m.memory_mib - m.memory_mib_guaranteed)
                FROM placement.usage m JOIN placement.quota_node q ON q.name = m.quota_node
            ) counted GROUP BY name, flavor
        ) s ON s.name = u.quota_node AND s.flavor = u.flavor
        WHERE (u.gpu_milli, u.cpu_milli, u.memory_mib) IS DISTINCT FROM
              (coalesce(s.gpu, 0), coalesce(s.cpu, 0), coalesce(s.memory, 0))""",
    "I2_limit": """
        SELECT quota_node || '/' || flavor AS subject,
               format('uses %s/%s/%s milli-GPU/milli-CPU/MiB, ceilings are %s/%s/%s, limits '
                      '%s/%s/%s', gpu_milli, cpu_milli, memory_mib, gpu_milli_ceiling,
                      cpu_milli_ceiling, memory_mib_ceiling, gpu_milli_limit, cpu_milli_limit,
                      memory_mib_limit) AS detail
        FROM placement.usage
        WHERE gpu_milli > gpu_milli_ceiling OR cpu_milli > cpu_milli_ceiling
           OR memory_mib > memory_mib_ceiling
           OR gpu_milli_ceiling > greatest(gpu_milli_limit, gpu_milli)
           OR cpu_milli_ceiling > greatest(cpu_milli_limit, cpu_milli)
           OR memory_mib_ceiling > greatest(memory_mib_limit, memory_mib)""",
    "I2_uncharged": """
        SELECT a.workload_id AS subject,
               'holds devices of queue ' || a.queue || ' in ' || a.flavor
               || ', which has no quota' AS detail
        FROM placement.allocation a LEFT JOIN placement.usage u
          ON u.quota_node = a.queue AND u.flavor = a.flavor
        WHERE u.quota_node IS NULL GROUP BY a.workload_id, a.queue, a.flavor""",
    "I3_count": """
        SELECT count(*) AS rows FROM placement.workload
        WHERE state IN ('placed', 'bound', 'running', 'evicting', 'cancelling')""",
    "I3_pods": """
        SELECT w.id AS subject, format('is %s with %s of %s pods in the ledger', w.state,
               coalesce(s.pods, 0),
               jsonb_array_length(nullif(w.placement, '')::jsonb->'pods')) AS detail
        FROM placement.workload w LEFT JOIN (
            SELECT workload_id, attempt, count(DISTINCT rank) AS pods
            FROM placement.allocation GROUP BY workload_id, attempt
        ) s ON s.workload_id = w.id AND s.attempt = w.attempt
        WHERE w.state IN ('placed', 'bound', 'running', 'evicting', 'cancelling')
          AND coalesce(s.pods, 0) IS DISTINCT FROM jsonb_array_length(
              nullif(w.placement, '')::jsonb->'pods')""",
    "I3_bound": """
        SELECT b.workload_id AS subject,
               format('attempt %s is %s in the cluster with %s pods, the ledger has %s',
                      b.attempt, b.state, b.size, coalesce(s.pods, 0)) AS detail
        FROM binder.attempt b LEFT JOIN (
            SELECT workload_id, attempt, count(DISTINCT rank) AS pods
            FROM placement.allocation GROUP BY workload_id, attempt
        ) s ON s.workload_id = b.workload_id AND s.attempt = b.attempt
        LEFT JOIN placement.workload w ON w.id = b.workload_id
        WHERE b.active AND b.size <> coalesce(s.pods, b.size)
          AND NOT coalesce((nullif(w.resize, '')::jsonb->>'open')::boolean, false)""",
    "I5_count": "SELECT count(*) AS rows FROM placement.allocation",
    "I5_orphan": """
        SELECT a.workload_id AS subject,
               format('attempt %s holds %s rows on %s, but %s', a.attempt, count(*),
                      min(a.node), CASE WHEN w.id IS NULL THEN 'there is no such workload'
                      ELSE format('the workload is %s at attempt %s', w.state, w.attempt) END
               ) AS detail
        FROM placement.allocation a LEFT JOIN placement.workload w ON w.id = a.workload_id
        WHERE w.id IS NULL OR w.attempt <> a.attempt
           OR w.state NOT IN ('placed', 'bound', 'running', 'evicting', 'cancelling')
        GROUP BY a.workload_id, a.attempt, w.id, w.state, w.attempt""",
    "I5_pods": """
        SELECT b.workload_id AS subject,
               format('attempt %s is %s in the cluster, but %s', b.attempt, b.state,
                      CASE WHEN w.id IS NULL THEN 'placement does not know the workload'
                      ELSE format('the workload is %s at attempt %s', w.state, w.attempt) END
               ) AS detail
        FROM binder.attempt b LEFT JOIN placement.workload w ON w.id = b.workload_id
        WHERE b.active AND (w.id IS NULL OR w.attempt <> b.attempt
            OR w.state NOT IN ('placed', 'bound', 'running', 'evicting', 'cancelling'))""",
    "I13_count": """
        SELECT (SELECT count(*) FROM placement.gpu) + (SELECT count(*) FROM placement.node)
            AS rows""",
    "I13_gpu": """
        SELECT coalesce(g.node, s.node) || '/gpu' || coalesce(g.gpu, s.gpu) AS subject,
               format('the GPU says mask %s, %s milli, %s MiB, %s shares; allocations sum to '
                      '%s, %s, %s, %s', g.mask, g.milli_used, g.memory_mib_used, g.shares,
                      s.mask, s.milli, s.memory, s.shares) AS detail
        FROM placement.gpu g FULL JOIN (
            SELECT node, gpu, bit_or(mask) AS mask, sum(milli) AS milli,
                   sum(gpu_memory_mib) AS memory, count(*) FILTER (WHERE mask = 0) AS shares
            FROM placement.allocation WHERE gpu >= 0 GROUP BY node, gpu
        ) s ON s.node = g.node AND s.gpu = g.gpu
        WHERE g.node IS NULL OR bit_count(g.mask::bit(8)) <> g.slices_used
           OR (g.mask, g.milli_used, g.memory_mib_used, g.shares) IS DISTINCT FROM
              (coalesce(s.mask, 0), coalesce(s.milli, 0), coalesce(s.memory, 0),
               coalesce(s.shares, 0))""",
    "I13_node": """
        SELECT n.name AS subject,
               format('the node says %s milli-CPU and %s MiB used of %s and %s; allocations sum '
                      'to %s and %s', n.cpu_milli_used, n.memory_mib_used, n.cpu_milli,
                      n.memory_mib, coalesce(s.cpu, 0), coalesce(s.memory, 0)) AS detail
        FROM placement.node n LEFT JOIN (
            SELECT node, sum(cpu_milli) AS cpu, sum(memory_mib) AS memory
            FROM placement.allocation GROUP BY node
        ) s ON s.node = n.name
        WHERE (n.cpu_milli_used, n.memory_mib_used) IS DISTINCT FROM
              (coalesce(s.cpu, 0), coalesce(s.memory, 0))
           OR (n.present AND (n.cpu_milli_used > n.cpu_milli
                              OR n.memory_mib_used > n.memory_mib))""",
    "capacity": """
        SELECT n.name, n.generation, n.cpu_milli, n.memory_mib, n.cpu_milli_used,
               n.memory_mib_used, (SELECT count(*) FROM placement.gpu g WHERE g.node = n.name)
               AS gpus FROM placement.node n WHERE n.present""",
}


def check_ledger(evidence: Evidence, invariant: str) -> Findings:
    """What the queries of one invariant returned."""
    findings = Findings()
    for name, rows in evidence.rows.items():
        if name == f"{invariant}_count":
            findings.checked += sum(row["rows"] for row in rows)
        elif name.startswith(f"{invariant}_"):
            for row in rows:
                findings.add(row["subject"], row["detail"])
    return findings


def check_capacity(evidence: Evidence) -> Findings:
    """I13 against the log: the ledger counts with what the agents reported, nothing else."""
    findings = Findings()
    reported: dict[str, list[tuple[int, Payload]]] = {}
    for record in evidence.log.of("muster.node-inventory.reported.v1"):
        node = record.payload["node"]
        reported.setdefault(node["name"], []).append((record.payload["generation"], node))
    for row in evidence.rows["capacity"]:
        known = [one for one in reported.get(row["name"], []) if one[0] <= row["generation"]]
        if not known:
            if evidence.log.complete:
                findings.add(row["name"], "is in the ledger, but no agent ever reported it")
            continue
        findings.checked += 1
        node = max(known, key=lambda one: one[0])[1]
        for unit in ("cpu_milli", "memory_mib"):
            if row[unit] != max(node[unit], row[f"{unit}_used"]):
                findings.add(
                    row["name"], f"{unit} is {row[unit]}, its agent reported {node[unit]}"
                )
        if row["gpus"] < len(node["gpus"]):
            findings.add(
                row["name"], f"{row['gpus']} GPUs, its agent reported {len(node['gpus'])}"
            )
    return findings


def check_pods_gone(evidence: Evidence) -> Findings:
    """I5 from the log: devices are given back only when the pods on them are known to be gone."""
    findings = Findings()
    log = evidence.log
    commanded = set(map(attempt_of, log.of(BIND)))
    gone = set(map(attempt_of, log.of(*POD_ENDS)))
    if not log.whole("pod.facts.v1"):  # an end is there if something of before it is
        commanded &= set(map(attempt_of, log.of(*POD_FACTS)))
    for record in log.on("workload.facts.v1"):
        for holder in closed(record):
            findings.checked += 1
            if holder in commanded and holder not in gone and log.covered(record):
                findings.add(
                    holder[0],
                    f"attempt {holder[1]} was released, but its pods were never seen to end",
                )
    if log.whole("pod.facts.v1"):
        _check_shrunk(findings, evidence)
    return findings


def _check_shrunk(findings: Findings, evidence: Evidence) -> None:
    """A gang gives devices back only when the binder has answered as many resizes."""
    answers = Counter(map(attempt_of, evidence.log.of(*RESIZE_ENDS)))
    pods: dict[tuple[str, int], int] = {}
    shrunk: Counter[tuple[str, int]] = Counter()
    for record in evidence.log.on("workload.facts.v1"):
        if record.type not in HOLDS:
            continue
        holder = (record.payload["workload_id"], record.payload["attempt"])
        count = len(record.payload["placement"]["pods"])
        if count < pods.get(holder, 0):
            findings.checked += 1
            shrunk[holder] += 1
            if shrunk[holder] > answers[holder] and evidence.log.covered(record):
                findings.add(
                    holder[0],
                    f"attempt {holder[1]} gave up pods {shrunk[holder]} times, the binder saw "
                    f"it {answers[holder]} times",
                )
        pods[holder] = count
