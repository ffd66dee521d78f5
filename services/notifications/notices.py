"""Which fact is which event: facts of the others become notices, in words and in fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from shared.core.health.device import OUT_OF_SERVICE, DeviceState
from shared.core.model.reason import Reason
from shared.core.model.wording import moment
from shared.core.notifications.events import NoticeKind, Severity
from shared.events import idleness, nodes, notifications, quotas, workloads
from shared.events.envelope import Event
from shared.events.workloads import Wire


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """One event for people and programs. All that users wrote is in values of `fields`."""

    id: str
    """Of the fact, so that a receiver knows a repetition."""
    kind: NoticeKind
    severity: Severity
    team: str
    at_ms: int
    text: str
    command: str = ""
    """What helps, as it is typed."""
    fields: dict[str, str | int] = msgspec.field(default_factory=dict)


def notice_of(event: Event) -> Notice | None:
    """What is told of a fact; None: nothing."""
    make = MAKERS.get(type(event.payload))
    return None if make is None else make(event, event.payload)


def _notice(
    event: Event,
    kind: NoticeKind,
    *,
    severity: Severity,
    text: str,
    fields: dict[str, str | int],
    team: str = "",
    command: str = "",
) -> Notice:
    """Of a fact: known by its id, at its time; without a team it is of the fleet."""
    return Notice(
        id=event.id,
        kind=kind,
        severity=severity,
        team=team,
        at_ms=event.time_ms,
        text=text,
        command=command,
        fields=fields,
    )


def _workload(
    event: Event, fact: workloads.WorkloadFact, kind: NoticeKind, severity: Severity, text: str
) -> Notice:
    fields: dict[str, str | int] = {
        "workload_id": fact.workload_id,
        "queue": fact.queue,
        "attempt": fact.attempt,
        "state": fact.state.value,
        "reason": fact.reason.value,
        "message": fact.message,
    }
    if isinstance(fact, workloads.WorkloadFailed):
        fields["exit_code"] = fact.exit_code
    return _notice(
        event,
        kind,
        severity=severity,
        team=fact.team,
        text=f"workload {fact.workload_id} {text}",
        command=f"muster why {fact.workload_id}",
        fields=fields,
    )


def _running(event: Event, fact: workloads.WorkloadRunning) -> Notice:
    return _workload(event, fact, NoticeKind.STARTED, Severity.INFO, "runs")


def _succeeded(event: Event, fact: workloads.WorkloadSucceeded) -> Notice:
    return _workload(event, fact, NoticeKind.SUCCEEDED, Severity.INFO, "succeeded")


def _failed(event: Event, fact: workloads.WorkloadFailed) -> Notice:
    text = f"failed with exit code {fact.exit_code}"
    return _workload(event, fact, NoticeKind.FAILED, Severity.WARNING, text)


def _cancelled(event: Event, fact: workloads.WorkloadCancelled) -> Notice:
    return _workload(event, fact, NoticeKind.CANCELLED, Severity.INFO, "was cancelled")


def _evicted(event: Event, fact: workloads.WorkloadEvicted) -> Notice:
    if fact.preemption is not None:
        text = f"was preempted by team {fact.preemption.team} (rule {fact.preemption.rule})"
        kind = NoticeKind.PREEMPTED
    elif fact.idle is not None:
        text, kind = "was stopped because its GPUs were not used", NoticeKind.IDLE_RELEASED
    elif fact.reason is Reason.DEVICE_UNHEALTHY:
        text, kind = "was stopped: a GPU under it is out of service", NoticeKind.GPU_DRAINED
    else:
        text, kind = f"was stopped ({fact.reason.value})", NoticeKind.EVICTED
    return _workload(event, fact, kind, Severity.WARNING, text)


def _rejected(event: Event, fact: workloads.WorkloadRejected) -> Notice:
    return _notice(
        event,
        NoticeKind.REJECTED,
        severity=Severity.WARNING,
        team=fact.team,
        text=f"submission {fact.workload_id} was rejected",
        command=f"muster why {fact.workload_id}",
        fields={"workload_id": fact.workload_id, "name": fact.name, "message": fact.message},
    )


def _idle(event: Event, fact: idleness.IdlenessNoticed) -> Notice | None:
    if fact.reminder:
        return None
    text = (
        f"workload {fact.workload_id} has used its GPUs {fact.utilization_percent} % at most since"
        f" {moment(fact.since_ms)}"
    )
    if fact.release_at_ms:
        text += f"; it is released at about {moment(fact.release_at_ms)} if this goes on"
    return _notice(
        event,
        NoticeKind.IDLE_WARNED,
        severity=Severity.WARNING,
        team=fact.team,
        text=text,
        command=f"muster cancel {fact.workload_id}",
        fields={
            "workload_id": fact.workload_id,
            "queue": fact.queue,
            "since_ms": fact.since_ms,
            "release_at_ms": fact.release_at_ms,
            "utilization_percent": fact.utilization_percent,
        },
    )


def _budget(event: Event, fact: quotas.BudgetWarned) -> Notice:
    spent = fact.threshold_percent >= 100  # noqa: PLR2004  # per cent
    return _notice(
        event,
        NoticeKind.BUDGET,
        severity=Severity.CRITICAL if spent else Severity.WARNING,
        team=fact.team,
        text=f"team {fact.team} has spent {fact.threshold_percent} % of its budget ({fact.month})",
        command=f"muster usage -t {fact.team}",
        fields={
            "month": fact.month,
            "threshold_percent": fact.threshold_percent,
            "spent_gpu_milli_hours": fact.spent_gpu_milli_hours,
            "spent_microdollars": fact.spent_microdollars,
        },
    )


def _device(event: Event, fact: nodes.DeviceHealthChanged) -> Notice | None:
    if not fact.done:
        return None
    severity = Severity.CRITICAL if fact.after in OUT_OF_SERVICE else Severity.WARNING
    if fact.after is DeviceState.HEALTHY:
        severity = Severity.INFO
    return _notice(
        event,
        NoticeKind.GPU_HEALTH,
        severity=severity,
        text=f"GPU {fact.gpu} of node {fact.node} is {fact.after.value}, by rule {fact.rule}",
        command=f"muster nodes {fact.node}",
        fields={
            "node": fact.node,
            "gpu": fact.gpu,
            "before": fact.before.value,
            "after": fact.after.value,
            "rule": fact.rule,
            "message": fact.message,
        },
    )


def _silent(event: Event, fact: nodes.NodeSilent) -> Notice:
    return _notice(
        event,
        NoticeKind.NODE_SILENT,
        severity=Severity.CRITICAL,
        text=f"the agent of node {fact.node} is not heard since {moment(fact.since_ms)}",
        command=f"muster nodes {fact.node}",
        fields={"node": fact.node, "since_ms": fact.since_ms},
    )


def _week(event: Event, fact: notifications.TellWeek) -> Notice:
    """One sentence of numbers; the remarks are the message, one line in all."""
    whose = f"team {fact.team}" if fact.team else "all teams"
    measured = fact.used_gpu_ms + fact.unused_gpu_ms
    share = (
        f"{100 * fact.used_gpu_ms // measured} % of what was measured"
        if measured
        else "it is not known what"
    )
    waits = (
        f", half of its work started within {fact.wait_p50_ms // 1_000} s"
        if fact.wait_p50_ms is not None
        else ""
    )
    return _notice(
        event,
        NoticeKind.REPORT_WEEKLY,
        severity=Severity.INFO,
        team=fact.team,
        text=(
            f"week of {fact.since}: {whose} held {_hours(fact.allocated_gpu_ms)} GPU-hours for"
            f" {_dollars(fact.cost_microdollars)} ({_dollars(fact.cost_before_microdollars)} the"
            f" week before) and used {share}; {_dollars(fact.unused_microdollars)} went unused,"
            f" {fact.failed} of {fact.submitted} workloads failed{waits}"
        ),
        command=f"muster report --week {fact.since}" + (f" -t {fact.team}" if fact.team else ""),
        fields=_numbers(fact) | {"message": "; ".join(fact.remarks)},
    )


def _numbers(fact: notifications.TellWeek) -> dict[str, str | int]:
    """What is said in it, for programs; what is not known is left out."""
    told = msgspec.structs.asdict(fact)
    return {
        name: value
        for name, value in told.items()
        if name not in {"team", "cell", "remarks"} and value is not None
    }


def _hours(gpu_ms: int) -> str:
    return f"{gpu_ms / 3_600_000:,.1f}"


def _dollars(microdollars: int) -> str:
    return f"${microdollars / 1_000_000:,.2f}"


def trial_notice(event: Event, fact: notifications.TryDestination) -> Notice:
    """What an operator asked for."""
    return _notice(
        event,
        NoticeKind.TEST,
        severity=Severity.INFO,
        text="this is a test: Muster reaches you",
        fields={"destination": fact.name, "by": fact.by},
    )


MAKERS: Final[dict[type[Wire], Callable[[Event, Any], Notice | None]]] = {
    workloads.WorkloadRunning: _running,
    workloads.WorkloadSucceeded: _succeeded,
    workloads.WorkloadFailed: _failed,
    workloads.WorkloadCancelled: _cancelled,
    workloads.WorkloadEvicted: _evicted,
    workloads.WorkloadRejected: _rejected,
    idleness.IdlenessNoticed: _idle,
    quotas.BudgetWarned: _budget,
    nodes.DeviceHealthChanged: _device,
    nodes.NodeSilent: _silent,
    notifications.TellWeek: _week,
}
