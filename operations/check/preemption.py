"""I6: a workload is evicted for others only by a plan that the rules allow, never for nothing.

I15, as far as evictions go: what is reserved or being evicted comes to an end in time.

Facts of placement are one stream, so the priority, class and queue of a workload at the moment of
a plan are those of its last fact before it, or those with which it was queued.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from operations.check.causes import unpublished
from operations.check.model import Evidence, Findings, Payload, Record

ACCEPTED: Final = "muster.eviction-plan.accepted.v1"
EXPIRED: Final = "muster.reservation.expired.v1"
EVICTED: Final = "muster.workload.evicted.v1"
PLACED: Final = "muster.workload.placed.v1"
QUEUED: Final = "muster.workload.queued.v1"
CLASS: Final = "muster.priority-class.applied.v1"
PROTECTED_BUILT_IN: Final = frozenset({"inference-production"})
INSIDE: Final = "priority"
"""The only rule that takes from the preemptor's own queue."""
LATE_MS: Final = 30_000
"""So long after its time something may still stand, on a busy system."""


@dataclass(slots=True)
class _Story:
    """What was known of every workload, fact by fact."""

    queue: dict[str, str] = field(default_factory=dict)
    priority: dict[str, int] = field(default_factory=dict)
    preemptible: dict[str, bool] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)
    plans: dict[str, Record] = field(default_factory=dict)
    open: dict[str, tuple[Record, str, Payload | None]] = field(default_factory=dict)
    """Accepted plans without an end, by the workload to start: (the plan, its id, where)."""


def check_preemption(evidence: Evidence) -> Findings:
    """I6 over the log, and over the reservations that stand."""
    findings = Findings()
    story = _begin(evidence)
    for record in evidence.log.on("workload.facts.v1"):
        payload = record.payload
        if record.type == ACCEPTED:
            findings.checked += 1
            _check_plan(findings, evidence, story, record)
        elif record.type == EXPIRED:
            story.open.pop(payload.get("workload_id", ""), None)
        elif payload:
            if record.type == EVICTED and payload.get("reason") in ("preempted", "moved"):
                findings.checked += 1
                _check_victim(findings, evidence, story, payload)
            elif record.type == PLACED:
                _check_room(findings, story, payload)
            _note(story, payload)
    _check_ends(findings, evidence, story)
    return findings


def _begin(evidence: Evidence) -> _Story:
    story = _Story()
    for record in evidence.log.of(QUEUED):
        workload = record.payload["workload"]
        spec = workload.get("spec", {})
        story.queue[workload["id"]] = workload.get("queue", "")
        story.priority[workload["id"]] = workload.get("priority", 0)
        story.classes[workload["id"]] = spec.get("priority_class", "")
        story.preemptible[workload["id"]] = spec.get("preemptible", True)
    return story


def _note(story: _Story, payload: Payload) -> None:
    name = payload.get("workload_id", "")
    if "priority" in payload:
        story.priority[name] = payload["priority"]
    if payload.get("priority_class"):  # Left out where it is as it was queued.
        story.classes[name] = payload["priority_class"]
    if "queue" in payload:
        story.queue[name] = payload["queue"]


def _check_plan(findings: Findings, evidence: Evidence, story: _Story, record: Record) -> None:
    plan = record.payload
    name = plan["plan_id"]
    if name in story.plans:
        findings.add(name, "is accepted twice")
    for starts, promise, placement in promises_of(plan):
        if starts in story.open:
            findings.add(starts, f"has the plans {story.open[starts][1]}, {promise}")
        story.plans[promise] = record
        story.open[starts] = record, promise, placement
    for victim in plan.get("victims", ()):
        _check_rule(findings, story, plan, victim)
        if is_protected(evidence, story.classes.get(victim["workload_id"], ""), record.time_ms):
            findings.add(
                victim["workload_id"], f"is of a protected class, and plan {name} took it"
            )


def promises_of(plan: Payload) -> Iterator[tuple[str, str, Payload | None]]:
    """(workload, id, where) of the preemptor and of each that goes on elsewhere for it."""
    name = plan["plan_id"]
    yield plan["workload_id"], name, plan.get("placement")
    for victim in plan.get("victims", ()):
        if victim.get("moves_to"):
            yield victim["workload_id"], f"{name}/{victim['workload_id']}", victim["moves_to"]


def _check_rule(findings: Findings, story: _Story, plan: Payload, named: Payload) -> None:
    preemptor, rule, victim = plan["workload_id"], plan.get("rule", ""), named["workload_id"]
    if victim == preemptor:
        findings.add(victim, "is evicted for itself")
    if not story.preemptible.get(victim, True):
        findings.add(victim, f"may not be preempted, and plan {plan['plan_id']} took it")
    if named.get("moves_to"):
        return  # It keeps its quota, and goes on.
    if not {victim, preemptor} <= story.queue.keys() & story.priority.keys():
        return  # What told of them is not in the log any more.
    same_queue = story.queue.get(victim) == story.queue.get(preemptor)
    theirs, mine = story.priority.get(victim, 0), story.priority.get(preemptor, 0)
    if same_queue and theirs >= mine:
        text = (
            f"of priority {theirs} is evicted in its own queue for {preemptor} of priority {mine}"
        )
        findings.add(victim, text)
    if not same_queue and rule == INSIDE:
        findings.add(victim, f"is of another queue than {preemptor}, and the rule is {rule}")


def is_protected(evidence: Evidence, name: str, at_ms: int) -> bool:
    """Whether a priority class was protected at a time, by the documents in the log."""
    protected = name in PROTECTED_BUILT_IN
    for record in evidence.log.of(CLASS):
        if record.payload.get("name") == name and record.time_ms <= at_ms:
            protected = record.payload.get("protected", False)
    return protected


def _check_victim(findings: Findings, evidence: Evidence, story: _Story, payload: Payload) -> None:
    """Every preempted workload is a victim of an accepted plan, with this attempt."""
    name, preemption = payload["workload_id"], payload.get("preemption") or {}
    plan = story.plans.get(preemption.get("plan_id", ""))
    if plan is None and not evidence.log.whole("workload.facts.v1"):
        return
    named = plan.payload.get("victims", ()) if plan is not None else ()
    if (name, payload["attempt"]) not in {(one["workload_id"], one["attempt"]) for one in named}:
        findings.add(name, f"attempt {payload['attempt']} is preempted by no accepted plan")


def _check_room(findings: Findings, story: _Story, payload: Payload) -> None:
    """A preemptor is placed just where it was promised."""
    _, _, promised = story.open.pop(payload["workload_id"], (None, "", None))
    if promised is not None and promised != payload["placement"]:
        findings.add(payload["workload_id"], "is placed elsewhere than its reservation said")


def _check_ends(findings: Findings, evidence: Evidence, story: _Story) -> None:
    """A plan ends with its preemptor placed, or with a refund, or its reservation stands."""
    stands = {row["workload_id"]: row["plan_id"] for row in evidence.rows["reservation"]}
    pending = unpublished(evidence, "placement")
    for preemptor, (record, name, _) in story.open.items():
        excused = preemptor in pending or stands.get(preemptor) == name
        if evidence.log.covered(record) and not excused:
            findings.add(preemptor, f"of plan {name} is neither placed nor refunded")
    for preemptor, name in stands.items():
        findings.checked += 1
        if name not in story.plans and evidence.log.complete and preemptor not in pending:
            findings.add(preemptor, f"has a reservation of plan {name}, which was never accepted")


def check_liveness(evidence: Evidence) -> Findings:
    """I15 of evictions: reservations and evictions end in their time."""
    findings = Findings(checked=len(evidence.rows["placement_workload"]))
    for row in evidence.rows["reservation"]:
        findings.checked += 1
        late_ms = row["now_ms"] - row["expires_at_ms"]
        if late_ms > LATE_MS:
            findings.add(row["workload_id"], f"has a reservation {late_ms} ms past its end")
        if row["state"] not in ("queued", "evicting"):  # a mover stops first
            findings.add(row["workload_id"], f"is {row['state']} and has a reservation")
    for row in evidence.rows["evicting"]:
        findings.checked += 1
        late_ms = row["now_ms"] - row["changed_at_ms"] - row["grace_seconds"] * 1000
        if late_ms > LATE_MS:
            findings.add(row["id"], f"is evicting {late_ms} ms longer than its grace")
    return findings
