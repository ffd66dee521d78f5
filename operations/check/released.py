"""I16, of GPUs that were given back while a pod still has them.

The ledger is read before the pods: of an attempt that is over in it no pod may be on a node later.
So one reading is proof, where other differences have to stay for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from operations.check.api_pods import ApiPod
from operations.check.model import Findings, Row
from operations.check.pod_labels import is_ours, key_of, place_of
from operations.check.states import HOLDING

ATTEMPTS_SQL: Final = "SELECT id, attempt, state FROM placement.workload"


def released_early(rows: Sequence[Row], pods: Iterable[ApiPod], instance: str) -> Findings:
    """Every pod on a node of an attempt that had given its devices back before."""
    known = {row["id"]: row for row in rows}
    findings = Findings(checked=len(known))
    for pod in pods:
        if pod.ended or not pod.spec.node_name or not is_ours(pod.metadata.labels, instance):
            continue
        workload, attempt, _ = key_of(pod.metadata.labels)
        row = known.get(workload)
        if row is not None and _over(row, attempt):
            findings.add(
                place_of(pod),
                f"is on {pod.spec.node_name}, and its GPUs were given back before: the workload "
                f"is {row['state']} at attempt {row['attempt']}",
            )
    return findings


def _over(row: Row, attempt: int) -> bool:
    """Whether the workload holds nothing for this attempt any more."""
    if attempt == row["attempt"]:
        return row["state"] not in HOLDING
    return attempt < int(row["attempt"])
