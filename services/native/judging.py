"""What is to be done about one group of pods now: submit it, cancel it, forget it, or say why not.

Pure: the group as the API server shows it, what was submitted of it, and the time come in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from services.native.picture import NativePicture
from services.native.records import Directory, GroupRecord, GroupState
from shared.core.admission.admit import AdmissionRefusal
from shared.core.model.decision import FieldError
from shared.core.model.nouns import WorkloadSpec
from shared.core.model.reason import BY_CAPACITY
from shared.core.native import (
    GroupObject,
    NativePod,
    PodGroup,
    PodsByGroup,
    group_key,
    group_of,
    may_come_back,
    problem_of_pod,
    spec_of,
)
from shared.ports.native import PodNotice

REFUSED: Final = "PodNotHonoured"
NO_TEAM: Final = "NamespaceOfNoTeam"
WAITING: Final = "WaitingForPods"
QUOTA_FULL: Final = "WaitingForNamespaceQuota"
BEYOND: Final = "BeyondGroupSize"
REJECTED: Final = "Rejected"
REQUEUED: Final = "Requeued"
CANCELLED: Final = "Cancelled"
ASK_AGAIN_MS: Final = 300_000
"""A rejected group is submitted again after so long: quota and nodes come and go."""
RESTART_MS: Final = 5_000
RESTART_MS_MAX: Final = 300_000
"""The same pods after an end wait so long, twice as long each time."""
OBJECT_WAIT_MS: Final = 5_000
OBJECT_TOLD_MS: Final = 15_000
"""Pods so old are told of an object that is missing: it may be created after them."""
LOOK_AGAIN_MS: Final = 5_000
"""What is beside pods (quotas, volumes, pods of other groups) is looked at so often."""
DOUBLINGS_MAX: Final = 10
UNBOUND: Final = "has no volume yet, and Muster chooses none (WaitForFirstConsumer)"
BIND: Final = "use a StorageClass with volumeBindingMode Immediate, or bind the claim first"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJudgement:
    """At most one of the first three; `again_ms`: when to judge again though nothing changes."""

    submit: tuple[str, WorkloadSpec] | None = None
    """Team, and what the group is."""
    cancel: bool = False
    forget: bool = False
    notices: Sequence[PodNotice] = ()
    again_ms: int | None = None


NOTHING: Final = GroupJudgement()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJudge:
    """What all groups are judged by."""

    directory: Directory
    pool_labels: Collection[str]
    gone_ms: int

    def judge(
        self,
        key: str,
        members: Sequence[NativePod],
        record: GroupRecord | None,
        picture: NativePicture,
        *,
        gone_since_ms: int,
        now_ms: int,
    ) -> GroupJudgement:
        """What is to be done: the first that applies. O(members)."""
        there = [one for one in members if not one.ended]
        submitted = record is not None and record.state is GroupState.SUBMITTED
        if not there:
            if record is not None and _will_make_more(record, picture.told):
                return NOTHING
            return self._gone(members, record, gone_since_ms, now_ms)
        waiting = [one for one in there if one.waits]
        if submitted or not waiting:
            return _still(there, record)
        group = self._group(key, waiting, picture.told, now_ms)
        if isinstance(group, GroupJudgement):
            return group
        if record is not None:
            paused = _paused(record, waiting, now_ms)
            if paused is not None:
                return paused
        return self._whole(group, waiting, picture, now_ms)

    def _gone(
        self,
        members: Sequence[NativePod],
        record: GroupRecord | None,
        gone_since_ms: int,
        now_ms: int,
    ) -> GroupJudgement:
        """Of pods that ended the binder tells; where there are none, their owner may be gone."""
        if record is None or members:
            return NOTHING
        if record.state is not GroupState.SUBMITTED:
            return GroupJudgement(forget=True)
        wait_ms = self.gone_ms if may_come_back(record.key) else 0
        due_ms = gone_since_ms + wait_ms
        return GroupJudgement(cancel=True) if now_ms >= due_ms else GroupJudgement(again_ms=due_ms)

    def _group(
        self,
        key: str,
        waiting: Sequence[NativePod],
        told: Mapping[str, GroupObject],
        now_ms: int,
    ) -> PodGroup | GroupJudgement:
        """Nothing of a whole that starts in parts, and of parts of one that does not."""
        for one in waiting:
            problem = problem_of_pod(one, self.pool_labels)
            if problem is not None:
                return _refused(waiting, problem)
        groups = [group_of(one, told) for one in waiting]
        wrong = next((one for one in groups if isinstance(one, FieldError)), None)
        if wrong is not None:
            return _refused(waiting, wrong)
        found = [one for one in groups if isinstance(one, PodGroup)]
        if len(found) < len(groups):
            return _unsized(waiting, now_ms)
        if {one.key for one in found} != {key}:
            return NOTHING
        sizes = sorted({one.size for one in found})
        if len(sizes) > 1:
            rule = "all pods of a group must tell the same size"
            different = ", ".join(map(str, sizes))
            error = FieldError(field="metadata.annotations", value=different, rule=rule, remedy="")
            return _refused(waiting, error)
        return found[0]

    def _whole(
        self,
        group: PodGroup,
        waiting: Sequence[NativePod],
        picture: NativePicture,
        now_ms: int,
    ) -> GroupJudgement:
        namespace = waiting[0].namespace
        team = self.directory.team_of(namespace)
        if team is None:
            text = (
                f"namespace {namespace} belongs to no team of Muster; an administrator names it"
                " in the document of a team: namespace"
            )
            return _told(waiting, NO_TEAM, text)
        if len(waiting) < group.size:
            return _short(group, waiting, picture, now_ms)
        members = waiting[: group.size]
        hindered = _hindered(group, members, picture, now_ms)
        if hindered is not None:
            return hindered
        spec = spec_of(group, members, self.pool_labels, self.directory.classes)
        if isinstance(spec, FieldError):
            return _refused(waiting, spec)
        return GroupJudgement(submit=(team, spec))


def _short(
    group: PodGroup, waiting: Sequence[NativePod], picture: NativePicture, now_ms: int
) -> GroupJudgement:
    """Pods are missing: not made yet, or kept out by a quota of the namespace."""
    text = (
        f"{len(waiting)} of {group.size} pods of the group {group.name} are there; it"
        " holds nothing until all are"
    )
    full = picture.full_for(waiting[0])
    found = (
        _told(waiting, QUOTA_FULL, f"{text}. {full}") if full else _told(waiting, WAITING, text)
    )
    return replace(found, again_ms=now_ms + LOOK_AGAIN_MS)


def _hindered(
    group: PodGroup, members: Sequence[NativePod], picture: NativePicture, now_ms: int
) -> GroupJudgement | None:
    """What beside the pods keeps a whole group from being submitted; None: nothing does."""
    again_ms = now_ms + LOOK_AGAIN_MS
    for one in members:
        claim = picture.unbound(one)
        if claim is None:
            return GroupJudgement(again_ms=again_ms)
        if claim:
            error = FieldError(
                field="spec.volumes[].persistentVolumeClaim",
                value=claim,
                rule=UNBOUND,
                remedy=BIND,
            )
            return replace(_refused(members, error), again_ms=again_ms)
    apart = picture.pods.problem_of_spread(group.key, members)
    if apart is not None:
        return replace(_refused(members, apart), again_ms=again_ms)
    return None


def _unsized(waiting: Sequence[NativePod], now_ms: int) -> GroupJudgement:
    """The object that tells the size of the group is not known, or not yet."""
    again_ms = now_ms + OBJECT_WAIT_MS
    if now_ms - max(one.created_ms for one in waiting) < OBJECT_TOLD_MS:
        return GroupJudgement(again_ms=again_ms)
    _, kind, name = group_key(waiting[0])[0].split("/", 2)
    text = (
        f"the {kind} {name} that tells the size of the group does not exist, or the API server"
        " does not serve its kind; create it, or leave the group out of the pods"
    )
    return replace(_told(waiting, WAITING, text), again_ms=again_ms)


def _still(there: Sequence[NativePod], record: GroupRecord | None) -> GroupJudgement:
    """Why a group that was submitted waits, as it was told last, or the pods beyond its size."""
    if record is None:
        return NOTHING
    waiting, uids = [one for one in there if one.waits], frozenset(record.uids)
    beyond = [one for one in waiting if one.uid not in uids]
    staying = sum(not one.deleting for one in there)
    if len(beyond) < len(waiting) or staying <= len(uids):
        return _told(waiting, record.reason, record.message) if record.reason else NOTHING
    text = (
        f"the group has its {len(uids)} pods, as its size tells; give the group the size of"
        " all its pods, or this pod a group of its own"
    )
    return _told(beyond, BEYOND, text)


def _will_make_more(record: GroupRecord, told: Mapping[str, GroupObject]) -> bool:
    """Whether its object is not over: a Job pauses for minutes between its pods."""
    found = told.get(PodsByGroup.whole_of(record.key))
    return found is not None and not found.over


def _paused(
    record: GroupRecord, waiting: Sequence[NativePod], now_ms: int
) -> GroupJudgement | None:
    """Whether the same pods as before wait a while, or for ever; None: others, or long enough."""
    if not {one.uid for one in waiting} <= set(record.uids):
        return None
    if record.state is GroupState.CANCELLED:
        text = f"workload {record.workload_id} was cancelled in Muster; delete its pods or owner"
        return _told(waiting, CANCELLED, text)
    pause_ms = ASK_AGAIN_MS
    if record.state is GroupState.ENDED:
        pause_ms = min(RESTART_MS << min(record.restart, DOUBLINGS_MAX), RESTART_MS_MAX)
    due_ms = record.changed_at_ms + pause_ms
    if now_ms >= due_ms:
        return None
    told = _told(waiting, record.reason, record.message).notices if record.reason else ()
    return GroupJudgement(notices=told, again_ms=due_ms)


def _refused(pods: Sequence[NativePod], error: FieldError) -> GroupJudgement:
    remedy = f"; {error.remedy}" if error.remedy else ""
    return _told(pods, REFUSED, AdmissionRefusal(errors=(error,)).message + remedy)


def _told(pods: Sequence[NativePod], reason: str, message: str) -> GroupJudgement:
    return GroupJudgement(
        notices=tuple(
            PodNotice(
                namespace=one.namespace,
                name=one.name,
                uid=one.uid,
                reason=reason,
                message=message,
                capacity=reason in BY_CAPACITY,
            )
            for one in pods
        )
    )
