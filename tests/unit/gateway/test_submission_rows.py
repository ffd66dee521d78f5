"""What a group of submissions makes true: new, replayed and conflicting ones."""

from services.gateway.app.submission_rows import KnownSubmission, ValidSubmission, outcome_of
from shared.core.model.nouns import WorkloadKind, WorkloadSpec
from shared.events.fingerprint import body_hash
from shared.events.workloads import SubmitWorkload


def a_submission(identifier: str, name: str = "a") -> ValidSubmission:
    spec = WorkloadSpec(name=name, kind=WorkloadKind.TRAINING)
    return ValidSubmission(
        workload_id=identifier,
        team="red",
        queue="red",
        body_hash=body_hash(spec),
        actor="key",
        by="key ci (team member)",
        spec=spec,
        at_ms=1_000,
        cell=2,
        may_exist=True,
    )


def test_a_new_submission_makes_a_request_a_row_a_command_and_an_audit_entry():
    outcome, answers = outcome_of([a_submission("w1")], {})

    (emit,) = outcome.emits
    assert isinstance(emit.payload, SubmitWorkload)
    assert (emit.subject, emit.partition, emit.payload.team) == ("w1", 2, "red")
    assert (1_000, "key ci (team member)") == (emit.payload.submitted_at_ms, emit.payload.by)
    assert [write.expect for write in outcome.writes] == [1, None]
    assert [(one.before, one.after, one.actor) for one in outcome.changes] == [
        ("", "received", "key")
    ]
    assert answers == [KnownSubmission(workload_id="w1")]


def test_what_was_accepted_before_is_a_replay_or_a_conflict_and_writes_nothing():
    same, other = a_submission("w1"), a_submission("w2", name="b")

    outcome, answers = outcome_of([same, other], {"w1": same.body_hash, "w2": same.body_hash})

    assert (outcome.emits, outcome.writes, outcome.changes) == ([], [], [])
    assert [(one.replayed, one.conflict) for one in answers] == [(True, False), (True, True)]


def test_the_first_of_a_group_wins_and_the_others_are_measured_by_it():
    group = [a_submission("w1"), a_submission("w1"), a_submission("w1", name="b")]

    outcome, answers = outcome_of(group, {})

    assert len(outcome.emits) == 1
    assert [(one.replayed, one.conflict) for one in answers] == [
        (False, False),
        (True, False),
        (True, True),
    ]


def test_the_same_submission_has_the_same_ids_whenever_it_is_tried():
    first, _ = outcome_of([a_submission("w1")], {})
    again, _ = outcome_of([a_submission("w0"), a_submission("w1")], {})

    assert first.emits[0].cause.event.id == again.emits[1].cause.event.id
