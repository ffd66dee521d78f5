"""I1, I2, I3, I5 and I13 by SQL on the ledger of placement: each query returns violations.

A query `<id>_<n>` gives rows (subject, detail); `<id>_count` gives how much it looked at.
"""

from __future__ import annotations

from typing import Final

from operations.check.model import Evidence, Findings

HOLDING_SQL: Final = "('placed', 'bound', 'running', 'evicting', 'cancelling')"

LEDGER_QUERIES: Final[dict[str, str]] = {
    "I1_count": "SELECT count(*) AS rows FROM placement.allocation",
    "I1_slice_twice": """
        SELECT node || '/gpu' || gpu AS subject,
               'slice ' || slice || ' is held by ' || string_agg(
                   workload_id || '/' || attempt || '-' || rank, ' and ') AS detail
        FROM placement.allocation, generate_series(0, 7) AS slice
        WHERE gpu >= 0 AND mask & (1 << slice) <> 0
        GROUP BY node, gpu, slice HAVING count(*) > 1""",
    "I1_milli": """
        SELECT node || '/gpu' || gpu AS subject,
               sum(milli) || ' milli-GPU of 1000 are held' AS detail
        FROM placement.allocation WHERE gpu >= 0 GROUP BY node, gpu HAVING sum(milli) > 1000""",
    "I1_mixed": """
        SELECT node || '/gpu' || gpu AS subject,
               'a time-sliced share lies beside slices' AS detail
        FROM placement.allocation WHERE gpu >= 0
        GROUP BY node, gpu HAVING bool_or(mask = 0) AND bool_or(mask <> 0)""",
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
