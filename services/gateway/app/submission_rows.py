"""What a group of submissions makes true, all at once and by derived ids.

That is the accepted request, the first row of the read model, the command to admission, and the
audit row.

Pure. The same id with the same body is a replay and writes nothing; with another body it is a
conflict. That holds inside one group, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from shared.core.model.lifecycle import State
from shared.core.model.nouns import WorkloadSpec
from shared.events.envelope import Event, Received, event_id
from shared.events.registry import NAME_BY_TYPE
from shared.events.topics import SUBMISSION_COMMANDS
from shared.events.workloads import SubmitWorkload, Wire
from shared.ports.store import Write
from shared.runtime.handler import Change, Emit, Outcome

_json: Final = msgspec.json.Encoder()
HTTP_TOPIC: Final = "http"


@dataclass(slots=True, kw_only=True)
class ValidSubmission:
    """A valid submission with everything that the caller's identity adds.

    `actor` is the caller for the audit, `by` for people. `may_exist` is false for an id made from
    a fresh random key: nothing can be known of it.
    """

    workload_id: str
    team: str
    queue: str
    body_hash: str
    actor: str
    by: str
    spec: WorkloadSpec
    at_ms: int
    cell: int
    may_exist: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSubmission:
    """What became of a submission."""

    workload_id: str
    replayed: bool = False
    conflict: bool = False


ACCEPTED: Final = (
    "INSERT INTO gateway.accepted_request (workload_id, team, body_hash, actor, spec, at_ms,"
    " epoch) SELECT i, t, h, a, s, m, {epoch} FROM unnest({0}::text[], {1}::text[],"
    " {2}::text[], {3}::text[], {4}::text[], {5}::bigint[]) AS r(i, t, h, a, s, m)"
    " ON CONFLICT DO NOTHING RETURNING 1"
)
RECEIVED: Final = (
    "INSERT INTO gateway.workload (id, team, submitted_at_ms, version, state, changed_at_ms,"
    " name, kind, queue, body_hash, labels, cell) SELECT i, t, m, 0, 'received', m, n, k, q, h,"
    " l::jsonb, c FROM unnest({0}::text[], {1}::text[], {2}::bigint[], {3}::text[], {4}::text[],"
    " {5}::text[], {6}::text[], {7}::text[], {8}::int[]) AS r(i, t, m, n, k, q, h, l, c)"
    " ON CONFLICT DO NOTHING RETURNING 1"
)


def outcome_of(
    submissions: Sequence[ValidSubmission], known: Mapping[str, str]
) -> tuple[Outcome, list[KnownSubmission]]:
    """The effects of a group, and what to answer each; `known` is body hash by id."""
    hashes = dict(known)
    fresh: list[ValidSubmission] = []
    answers: list[KnownSubmission] = []
    for one in submissions:
        before = hashes.get(one.workload_id)
        if before is None:
            hashes[one.workload_id] = one.body_hash
            fresh.append(one)
            answers.append(KnownSubmission(workload_id=one.workload_id))
        else:
            conflict = before != one.body_hash
            answers.append(
                KnownSubmission(workload_id=one.workload_id, replayed=True, conflict=conflict)
            )
    return _effects(fresh), answers


def _effects(fresh: Sequence[ValidSubmission]) -> Outcome:
    outcome = Outcome()
    if not fresh:
        return outcome
    for one in fresh:
        command = SubmitWorkload(
            workload_id=one.workload_id,
            team=one.team,
            spec=one.spec,
            body_hash=one.body_hash,
            submitted_at_ms=one.at_ms,
            by=one.by,
        )
        cause = cause_of(command, one.workload_id, one.body_hash, one.at_ms)
        outcome.emits.append(
            Emit(
                payload=command,
                topic=SUBMISSION_COMMANDS,
                subject=one.workload_id,
                cause=cause,
                partition=one.cell,
            )
        )
        outcome.changes.append(
            Change(
                subject=one.workload_id,
                version=0,
                before="",
                after=State.RECEIVED.value,
                cause=cause,
                actor=one.actor,
            )
        )
    outcome.writes = _writes(fresh)
    return outcome


def cause_of(payload: Wire, subject: str, distinct: str, at_ms: int) -> Received:
    """The HTTP request as a message: the same request again has the same id."""
    event = Event(
        id=event_id(at_ms, subject + distinct, HTTP_TOPIC, 0),
        type=NAME_BY_TYPE[type(payload)],
        source=HTTP_TOPIC,
        subject=subject,
        time_ms=at_ms,
        key=subject,
        payload=payload,
    )
    return Received(event=event, topic=HTTP_TOPIC, partition=0, offset=-1)


def _writes(fresh: Sequence[ValidSubmission]) -> list[Write]:
    identifiers = [one.workload_id for one in fresh]
    teams = [one.team for one in fresh]
    hashes = [one.body_hash for one in fresh]
    times = [one.at_ms for one in fresh]
    specs = [_json.encode(one.spec).decode() for one in fresh]
    actors = [one.actor for one in fresh]
    return [
        Write(ACCEPTED, (identifiers, teams, hashes, actors, specs, times), len(fresh)),
        Write(
            RECEIVED,
            (
                identifiers,
                teams,
                times,
                [one.spec.name for one in fresh],
                [one.spec.kind.value for one in fresh],
                [one.queue for one in fresh],
                hashes,
                [labels_text(one.spec) for one in fresh],
                [one.cell for one in fresh],
            ),
        ),
    ]


def labels_text(spec: WorkloadSpec) -> str | None:
    """The labels as JSON text, or None without any."""
    return _json.encode(spec.labels).decode() if spec.labels else None
