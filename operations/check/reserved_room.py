"""I6, of reserved room: what is being vacated for a preemptor is given to no other workload.

From the fact that accepts a plan until its preemptor is placed or the refund is told, no other
workload is placed on a slice or a whole GPU of the promised placement. Time-sliced shares of one
GPU may stand side by side; that they do not sum up to more than it has is I1.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from operations.check.model import Evidence, Findings, Payload
from operations.check.preemption import ACCEPTED, EXPIRED, PLACED, promises_of

Gpu = tuple[str, int]
"""(node, index)."""
WHOLE: Final = 0xFF


@dataclass(slots=True)
class _Kept:
    """Masks that are kept, by GPU and by preemptor."""

    on: defaultdict[Gpu, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    of: dict[str, list[Gpu]] = field(default_factory=dict)

    def keep(self, preemptor: str, shares: list[tuple[Gpu, int]]) -> None:
        self.of[preemptor] = [gpu for gpu, _ in shares]
        for gpu, mask in shares:
            self.on[gpu][preemptor] = self.on[gpu].get(preemptor, 0) | mask

    def drop(self, preemptor: str) -> None:
        for gpu in self.of.pop(preemptor, []):
            self.on[gpu].pop(preemptor, None)


def check_reserved_room(evidence: Evidence) -> Findings:
    """Every placement in the log against the reservations that stood then."""
    findings = Findings()
    kept = _Kept()
    for record in evidence.log.on("workload.facts.v1"):
        payload = record.payload
        if record.type == ACCEPTED:
            for starts, _, placement in promises_of(payload):
                kept.keep(starts, _shares({"placement": placement}))
        elif record.type == EXPIRED:
            kept.drop(payload.get("workload_id", ""))
        elif record.type == PLACED:
            kept.drop(payload["workload_id"])
            _check(findings, kept, payload)
    return findings


def _check(findings: Findings, kept: _Kept, placed: Payload) -> None:
    for gpu, mask in _shares(placed):
        findings.checked += 1
        for preemptor, other in kept.on[gpu].items():
            if mask & other or WHOLE in (mask, other):
                where = f"{gpu[0]}/gpu{gpu[1]}"
                findings.add(placed["workload_id"], f"is given {where}, kept for {preemptor}")


def _shares(payload: Payload) -> list[tuple[Gpu, int]]:
    pods = (payload.get("placement") or {}).get("pods", ())
    return [
        ((pod["node"], share["index"]), share["mask"])
        for pod in pods
        for share in pod.get("shares", ())
    ]
