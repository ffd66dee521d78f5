"""I1 and I2 from the log: devices and quota replayed fact by fact, not only at the end.

Placement is the single writer, so the order of `workload.facts` in a partition is the order of
its commits. Each placement opens an interval on its devices and on its queue; a resize replaces
it, the fact with the release closes it. An overlap, or use above the limit of the time, is a
violation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from operations.check.charges import HOLDS, Charges, Holder, closed
from operations.check.limits import UNITS, Limits
from operations.check.model import Evidence, Findings, Payload, Record
from operations.check.quota_order import FACTS, bounds_of, changes_of, known_from, units_of

WHOLE_MILLI: Final = 1000


@dataclass(slots=True, kw_only=True)
class _Device:
    """Holders of one GPU now: mask, milli and MiB by holder and rank."""

    held: dict[tuple[Holder, int], tuple[int, int, int]] = field(default_factory=dict)

    def conflict(self, mask: int, milli: int, memory_mib: int, memory_max: int) -> str:
        """Why one more share does not fit; empty when it does."""
        for (holder, _), (other, _, _) in self.held.items():
            if mask & other:
                return f"slices {mask & other:08b} are still held by {holder[0]}/{holder[1]}"
            if bool(mask) != bool(other):
                return f"a time-sliced share beside slices, with {holder[0]}/{holder[1]}"
        if sum(one[1] for one in self.held.values()) + milli > WHOLE_MILLI:
            return f"more than {WHOLE_MILLI} milli-GPU of one GPU"
        if not mask and sum(one[2] for one in self.held.values()) + memory_mib > memory_max:
            return f"more memory than the {memory_max} MiB of the GPU"
        return ""


def check_devices(evidence: Evidence) -> Findings:
    """I1 from the log: no slice, milli or MiB of a GPU is held twice at any time."""
    findings = Findings()
    devices: dict[tuple[str, int], _Device] = defaultdict(_Device)
    memory = _gpu_memory(evidence)
    open_: dict[Holder, list[tuple[str, int, int]]] = {}
    for record in evidence.log.on("workload.facts.v1"):
        for holder in closed(record):
            for node, gpu, rank in open_.pop(holder, []):
                devices[node, gpu].held.pop((holder, rank), None)
        if record.type not in HOLDS:
            continue
        holder = (record.payload["workload_id"], record.payload["attempt"])
        for node, gpu, rank in open_.pop(holder, []):
            devices[node, gpu].held.pop((holder, rank), None)
        open_[holder] = []
        for node, rank, share in _shares(record.payload):
            findings.checked += 1
            device = devices[node, share["index"]]
            amounts = share["mask"], share["milli"], share["memory_mib"]
            problem = device.conflict(*amounts, memory.get((node, share["index"]), 1 << 62))
            if problem:
                findings.add(
                    f"{node}/gpu{share['index']}", f"given to {holder[0]}/{holder[1]}: {problem}"
                )
            device.held[holder, rank] = amounts
            open_[holder].append((node, share["index"], rank))
    return findings


def _shares(placed: Payload) -> list[tuple[str, int, Payload]]:
    return [
        (pod["node"], pod["rank"], share)
        for pod in placed["placement"]["pods"]
        for share in pod.get("shares", ())
    ]


def _gpu_memory(evidence: Evidence) -> dict[tuple[str, int], int]:
    memory: dict[tuple[str, int], int] = {}
    for record in evidence.log.of("muster.node-inventory.reported.v1"):
        node = record.payload["node"]
        for gpu in node["gpus"]:
            key = (node["name"], gpu["index"])
            memory[key] = max(memory.get(key, 0), gpu["memory_mib"])
    return memory


def check_quota(evidence: Evidence) -> Findings:
    """I2 from the log: at each placement no node of the quota tree is above its limit."""
    findings = Findings()
    units = units_of(evidence)
    cells: dict[int, list[Record]] = defaultdict(list)
    for record in evidence.log.on(FACTS):
        cells[record.partition].append(record)
    for partition, facts in cells.items():
        changes = changes_of(evidence, units, partition)
        start = known_from(evidence, changes)
        if start is not None:
            _check_cell(findings, evidence, facts, units, (Limits.of(changes), start))
    return findings


def _check_cell(
    findings: Findings,
    evidence: Evidence,
    facts: list[Record],
    units: Mapping[str, int],
    known: tuple[Limits, int],
) -> None:
    """Each placement of one cell against the limits, where they are known from a unit on."""
    limits, start = known
    charges = Charges()
    for record, bounds in zip(facts, bounds_of(facts, units), strict=True):
        change = charges.take(record)
        if change is None:
            continue
        before, entry = change
        shrinks = before is not None and not _larger(entry[2], before[2])
        if shrinks or bounds[0] < start or not evidence.log.covered(record):
            continue  # a gang that shrinks may do so above a limit that was lowered
        findings.checked += 1
        for problem in limits.broken(bounds, charges.used, entry):
            findings.add(record.payload["workload_id"], f"placed above quota: {problem}")


def _larger(charge: Payload, before: Payload) -> bool:
    return any(charge.get(unit, 0) > before.get(unit, 0) for unit in UNITS)


def check_gangs(evidence: Evidence) -> Findings:
    """I3 from the log: every placement and every bind command holds the whole gang."""
    findings = Findings()
    specs = {
        record.payload["workload"]["id"]: record.payload["workload"]["spec"]
        for record in evidence.log.of("muster.workload.queued.v1")
    }
    for record in evidence.log.of(*HOLDS, "muster.bind.workload.v1", "muster.resize.pods.v1"):
        spec = specs.get(record.payload["workload_id"])
        if spec is not None:
            findings.checked += 1
            _check_gang(findings, record, spec)
    return findings


def _check_gang(findings: Findings, record: Record, spec: Payload) -> None:
    pods = record.payload["placement"]["pods"]
    workload = record.payload["workload_id"]
    ranks = [pod["rank"] for pod in pods]
    if len(set(ranks)) != len(ranks):
        findings.add(workload, f"attempt {record.payload['attempt']} has a rank twice")
    for pod_set in spec["pod_sets"]:
        name, most = pod_set.get("name", "main"), pod_set.get("count", 1)
        least = pod_set.get("min_count") or most
        got = sum(pod["pod_set"] == name for pod in pods)
        if not least <= got <= most:
            findings.add(
                workload,
                f"{record.type} of attempt {record.payload['attempt']} has {got} of {most} pods "
                f"of {name}, at least {least} belong together",
            )
