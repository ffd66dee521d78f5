"""Commands of users and facts about workloads.

Every fact about a workload carries its version and the whole state after the change, so a
consumer applies what is newer and never needs the one before (ADR 4).
"""

from __future__ import annotations

import msgspec

from shared.core.model.decision import FieldError
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Placement, Workload, WorkloadSpec
from shared.core.model.reason import Reason


class Wire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of everything on the wire: unknown fields are ignored, defaults are left out."""


class SubmitWorkload(Wire, frozen=True, kw_only=True):
    """A submission as it came in; on a team's own topic only `spec` is read.

    Team and workload id come from the caller's identity, never from a field that the caller sets.
    """

    spec: WorkloadSpec
    workload_id: str = ""
    """Id that the workload gets; on a team's own topic it is not read."""
    team: str = ""
    """Team of the caller; on a team's own topic it is not read."""
    body_hash: str = ""
    door: str = "http"
    submitted_at_ms: int = 0
    """Unix milliseconds, in the order of submission; 0: the time of the event."""
    pod_group: str = ""
    """NAMESPACE/KEY of the pods that are there already, of the native service alone."""
    by: str = ""
    """The caller as people are told; on a team's own topic it is not read."""


class CancelWorkload(Wire, frozen=True, kw_only=True):
    """Stop the workload for good.

    Of this and the other commands `actor` is the public part of the key, for the audit, and `by`
    is what people are told instead: its label and role.
    """

    workload_id: str
    team: str
    actor: str = ""
    by: str = ""
    """Label and role of the key with the public part `actor`."""


class HoldWorkload(Wire, frozen=True, kw_only=True):
    """Keep it from running until released; running pods are stopped with grace."""

    workload_id: str
    team: str
    actor: str = ""
    by: str = ""
    """Label and role of the key with the public part `actor`."""


class ReleaseWorkload(Wire, frozen=True, kw_only=True):
    """Undo a hold."""

    workload_id: str
    team: str
    actor: str = ""
    by: str = ""
    """Label and role of the key with the public part `actor`."""


class ReprioritiseWorkload(Wire, frozen=True, kw_only=True):
    """Change the priority class; admission fills in its value."""

    workload_id: str
    team: str
    priority_class: str
    priority: int = 0
    actor: str = ""
    by: str = ""
    """Label and role of the key with the public part `actor`."""


class ResizeWorkload(Wire, frozen=True, kw_only=True):
    """Let an elastic gang have `pods` pods from now on: at once, or as soon as there is room."""

    workload_id: str
    team: str
    pods: int
    """Pods of the gang from now on."""
    actor: str = ""
    by: str = ""
    """Label and role of the key with the public part `actor`."""


class RequestEviction(Wire, frozen=True, kw_only=True):
    """An operator's eviction: stop the pods with grace and queue the workload again."""

    workload_id: str
    team: str
    reason: str = Reason.OPERATOR.value
    """In older messages free text, which is `note` now."""
    actor: str = ""
    by: str = ""
    """Label and role of the key with the public part `actor`."""
    note: str = ""
    """Why, in the operator's words."""


class WorkloadQueued(Wire, frozen=True, kw_only=True):
    """Admission's yes: the workload with defaults filled. Version 1."""

    workload: Workload
    """The workload with all defaults."""
    body_hash: str
    door: str = "http"
    version: int = 1
    by: str = ""
    """The caller that submitted it, as people are told; empty: by its team's own topic."""


class WorkloadRejected(Wire, frozen=True, kw_only=True):
    """Admission's no, with every broken rule. Version 1, terminal."""

    workload_id: str
    team: str
    name: str
    """Name that its owner gave it."""
    kind: str
    """What it is for: a kind of workload."""
    body_hash: str
    errors: tuple[FieldError, ...]
    message: str
    cell: int = 0
    version: int = 1


class SubmissionConflicted(Wire, frozen=True, kw_only=True):
    """The same idempotency key came with another body; the first workload stands."""

    workload_id: str
    team: str
    message: str


class SubmissionAnswered(Wire, frozen=True, kw_only=True):
    """The answer on a team's own results topic, one for each submission by Kafka."""

    workload_id: str
    """Empty where no id can be made of the key."""
    idempotency_key: str
    """The `ce_id` of the submission, else the key of the record.

    Of one that is not valid, the first 200 characters, with U+FFFD for what cannot be printed.
    """
    source_offset: int = -1
    """Offset of the answered record on the submissions topic; -1: told by an earlier version."""
    outcome: str
    """accepted | rejected | conflicted."""
    message: str = ""
    errors: tuple[FieldError, ...] = ()


class WorkloadChanged(Wire, frozen=True, kw_only=True):
    """What became of a workload, on its team's results topic: as its event by HTTP says it."""

    workload_id: str
    type: str
    """Type of the fact that it tells, such as muster.workload.placed.v1."""
    version: int
    state: State
    attempt: int
    at_ms: int
    """When it became so, Unix milliseconds."""
    reason: Reason = Reason.NONE
    message: str = ""
    pod_reason: str = ""
    exit_code: int = 0


class WorkloadFact(Wire, frozen=True, kw_only=True):
    """What all facts of placement about one workload share: the whole state after the change."""

    workload_id: str
    team: str
    queue: str
    version: int
    state: State
    attempt: int
    priority: int
    cell: int = 0
    reason: Reason = Reason.NONE
    message: str = ""
    pod_reason: str = ""
    priority_class: str = ""
    """The class that `priority` comes from; "" as it was queued."""


class WorkloadPlaced(WorkloadFact, frozen=True, kw_only=True):
    """Devices and quota are charged, in one act. `placed_at_ms` starts the cost."""

    placement: Placement
    placed_at_ms: int
    """When it got its devices, Unix milliseconds."""
    submitted_at_ms: int


class WorkloadBound(WorkloadFact, frozen=True, kw_only=True):
    """All pods are written to the cluster."""


class WorkloadRunning(WorkloadFact, frozen=True, kw_only=True):
    """All pods run."""

    running_at_ms: int
    """When all of its pods ran, Unix milliseconds."""


class WorkloadResized(WorkloadFact, frozen=True, kw_only=True):
    """A gang that runs holds more or fewer pods: `placement` is all that it holds from now on.

    Grown: charged, its new pods are being started. Shrunk: the pods given up are seen gone. What
    was held until `resized_at_ms` ends there. `resizes` counts the changes of this attempt.
    """

    placement: Placement
    resized_at_ms: int
    """When its size changed, Unix milliseconds."""
    resizes: int


class WorkloadReleasedDevices(WorkloadFact, frozen=True, kw_only=True):
    """Base of facts after which the ledger holds nothing for the attempt any more."""

    released_at_ms: int = 0
    """When the devices of the attempt were given back; 0 when it held none."""
    released_attempt: int = 0
    """The attempt that held them; 0: none."""
    released_resizes: int = 0
    """How often what it held had changed: the interval that ends here began with the last."""


class WorkloadSucceeded(WorkloadReleasedDevices, frozen=True, kw_only=True):
    """All pods ended well."""


class WorkloadFailed(WorkloadReleasedDevices, frozen=True, kw_only=True):
    """A pod failed and no retry is left, or a time limit passed."""

    exit_code: int = 0


class WorkloadCancelled(WorkloadReleasedDevices, frozen=True, kw_only=True):
    """Stopped by its owner; nothing runs any more."""


class WorkloadRequeued(WorkloadReleasedDevices, frozen=True, kw_only=True):
    """Back in its queue with its place kept, after an eviction or a failure."""


class WorkloadHeld(WorkloadReleasedDevices, frozen=True, kw_only=True):
    """Waits for a release."""


class WorkloadReleased(WorkloadFact, frozen=True, kw_only=True):
    """Released from a hold: queued again."""


class Preemption(Wire, frozen=True, kw_only=True):
    """The preemptor of a preempted workload, with plan and rule."""

    plan_id: str
    rule: str
    workload_id: str
    """Id of the workload that got the room."""
    team: str
    """Its team."""
    queue: str
    """Its queue."""


class IdleRelease(Wire, frozen=True, kw_only=True):
    """On which evidence idle work lost its GPUs: seen idle from `since_ms` to `until_ms`."""

    plan_id: str
    since_ms: int
    until_ms: int
    """Time of the last report that saw it idle, Unix milliseconds."""
    utilization_percent: int
    """The most that one of its GPUs was used meanwhile, in per cent."""


class WorkloadEvicted(WorkloadFact, frozen=True, kw_only=True):
    """Pods are being stopped (`evicting`); `reason` says why, `message` by which cause."""

    preemption: Preemption | None = None
    """Of a preempted one only."""
    back_at_ms: int = 0
    """When its room is expected to be free again; 0 when that is unknown."""
    idle: IdleRelease | None = None
    """Of one that was released because it was idle."""
    note: str = ""
    """Why, in the words of the operator that evicted it, or drained its node."""
    exit_code: int = 0


class WorkloadCancelling(WorkloadFact, frozen=True, kw_only=True):
    """Pods are being stopped because the owner cancelled."""


class WorkloadReprioritised(WorkloadFact, frozen=True, kw_only=True):
    """Its priority or priority class changed; it may wait, run or be stopping."""


class PlacementRefused(Wire, frozen=True, kw_only=True):
    """Why a nominated workload is not placed; told again only when the reason changes."""

    workload_id: str
    team: str
    queue: str
    nomination: int
    reason: Reason
    message: str
    next_step: str
    evidence: dict[str, int] = msgspec.field(default_factory=dict)
    cell: int = 0
