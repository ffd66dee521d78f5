"""I6, of idle work: GPUs are released only on evidence that was told, and that can be true.

A workload that is evicted for idleness was noticed with just this evidence, as this attempt, seen
only while it ran; and it is of no protected class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from operations.check.model import Evidence, Findings, Payload, Record
from operations.check.preemption import is_protected

NOTICED: Final = "muster.idleness.noticed.v1"
EVICTED: Final = "muster.workload.evicted.v1"
RUNNING: Final = "muster.workload.running.v1"
QUEUED: Final = "muster.workload.queued.v1"


@dataclass(slots=True)
class _Story:
    noticed: set[tuple[str, int, int, int]] = field(default_factory=set)
    """(workload, attempt, since, until)."""
    running_at_ms: dict[tuple[str, int], int] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)


def check_idle(evidence: Evidence) -> Findings:
    """I6 over the evictions of idle work in the log."""
    findings = Findings()
    story = _begin(evidence)
    for record in evidence.log.of(EVICTED):
        if record.payload.get("reason") == "idle":
            findings.checked += 1
            _check(findings, evidence, story, record)
    return findings


def _begin(evidence: Evidence) -> _Story:
    story = _Story()
    for record in evidence.log.of(NOTICED):
        one = record.payload
        place = (one["workload_id"], one["attempt"], one["since_ms"], one["until_ms"])
        story.noticed.add(place)
    for record in evidence.log.of(RUNNING):
        one = record.payload
        # Facts of before the field came say it by their own time.
        began_ms = one.get("running_at_ms", record.time_ms)
        story.running_at_ms[one["workload_id"], one["attempt"]] = began_ms
    for record in evidence.log.of(QUEUED):
        workload = record.payload["workload"]
        story.classes[workload["id"]] = workload.get("spec", {}).get("priority_class", "")
    return story


def _check(findings: Findings, evidence: Evidence, story: _Story, record: Record) -> None:
    payload: Payload = record.payload
    name, attempt, seen = payload["workload_id"], payload["attempt"], payload.get("idle") or {}
    since_ms, until_ms = seen.get("since_ms", 0), seen.get("until_ms", 0)
    if (name, attempt, since_ms, until_ms) not in story.noticed and evidence.log.complete:
        findings.add(
            name, f"attempt {attempt} is released as idle, but was never noticed to be idle"
        )
    if since_ms < story.running_at_ms.get((name, attempt), 0):
        findings.add(name, f"attempt {attempt} is released for idleness before it ran")
    now = payload.get("priority_class") or story.classes.get(name, "")
    if is_protected(evidence, now, record.time_ms):
        findings.add(name, "is of a protected class, and was released as idle")
