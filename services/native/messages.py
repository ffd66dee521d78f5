"""What follows for a group, as a local message of the loop."""

from __future__ import annotations

from typing import Final

from services.native.records import GroupRecord
from shared.core.model.nouns import WorkloadSpec
from shared.events.envelope import Event, Received, event_id, workload_id
from shared.events.workloads import CancelWorkload, SubmitWorkload, Wire

SERVICE: Final = "native"
OBSERVATION: Final = "observation"
DOOR: Final = "pods"
BY: Final = "the owner of its pods"


class GroupForgotten(Wire, frozen=True, kw_only=True):
    """Of a group that is over no pod is left. Never on the wire."""

    key: str


def submission(
    key: str, team: str, spec: WorkloadSpec, *, restart: int, first_uid: str, submitted_at_ms: int
) -> SubmitWorkload:
    """The workload that a group is. Its id is the same for the same pods of the same restart.

    `submitted_at_ms`: its place in the queue, which may be that of a pod that it follows.
    """
    return SubmitWorkload(
        spec=spec,
        workload_id=workload_id(team, f"pods/{key}/{first_uid}/{restart}"),
        team=team,
        door=DOOR,
        submitted_at_ms=submitted_at_ms,
        pod_group=key,
        by=BY,
    )


def cancellation(record: GroupRecord) -> CancelWorkload:
    """Of a workload whose pods are all gone."""
    return CancelWorkload(workload_id=record.workload_id, team=record.team, by=BY)


def as_message(payload: Wire, key: str, now_ms: int, cell: int) -> Received:
    """A local message with an id of its own."""
    kind = type(payload).__name__
    event = Event(
        id=event_id(now_ms, f"{key}/{kind}", SERVICE, 0),
        type=kind,
        source=SERVICE,
        subject=key,
        time_ms=now_ms,
        key=key,
        payload=payload,
    )
    return Received(event=event, topic=OBSERVATION, partition=cell, offset=-1)
