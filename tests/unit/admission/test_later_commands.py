"""Commands for what was submitted follow it in order, or go nowhere."""

import pytest

from shared.core.model.nouns import GpuRequest, WorkloadKind
from shared.events.envelope import workload_id
from shared.events.topics import (
    QUEUE_FACTS,
    team_submissions,
)
from shared.events.workloads import (
    CancelWorkload,
    HoldWorkload,
    ReleaseWorkload,
    ReprioritiseWorkload,
    RequestEviction,
)
from tests.unit.admission.builders import TEAM, a_pod_set, a_spec
from tests.unit.admission.support import ID, Office, a_team_document, only


@pytest.mark.parametrize(
    "command", [CancelWorkload, HoldWorkload, ReleaseWorkload, RequestEviction]
)
def test_later_commands_follow_the_workload_on_its_topic(command):
    office = Office()
    office.http()

    outcome = office.command(command(workload_id=ID, team=TEAM, actor="ann"))

    (emit,) = outcome.emits
    assert emit.payload == command(workload_id=ID, team=TEAM, actor="ann")
    assert (emit.topic, emit.partition, emit.subject) == (QUEUE_FACTS, 0, ID)


def test_a_change_of_priority_gets_the_value_of_its_class():
    office = Office()
    office.http()

    outcome = office.command(
        ReprioritiseWorkload(workload_id=ID, team=TEAM, priority_class="training-interactive")
    )

    assert only(outcome, ReprioritiseWorkload).priority == 500


def test_a_class_that_the_team_may_not_use_changes_nothing():
    office = Office()
    office.http()

    outcome = office.command(
        ReprioritiseWorkload(workload_id=ID, team=TEAM, priority_class="inference-production")
    )

    assert outcome.emits == []


def test_work_on_shares_is_never_given_a_protected_class():
    office = Office()
    granted = ("training-batch", "inference-production")
    office.apply(a_team_document(version=2, priority_classes=granted))
    pods = (a_pod_set(gpu=GpuRequest(milli=500, memory_mib=8_000)),)
    office.http(a_spec(WorkloadKind.NOTEBOOK, pod_sets=pods, priority_class="training-batch"))

    told = [
        len(
            office.command(
                ReprioritiseWorkload(workload_id=ID, team=TEAM, priority_class=name)
            ).emits
        )
        for name in ("inference-production", "training-batch")
    ]

    assert told == [0, 1]


def test_commands_for_what_is_unknown_foreign_or_rejected_go_nowhere():
    office = Office()
    office.http()
    office.http(a_spec(name="Bad"), key="k2")

    for identifier, team in [("wnone", TEAM), (ID, "other"), (workload_id(TEAM, "k2"), TEAM)]:
        outcome = office.command(CancelWorkload(workload_id=identifier, team=team))
        assert outcome.emits == []


def test_only_submissions_are_taken_on_a_teams_topic():
    office = Office()
    office.http()
    command = CancelWorkload(workload_id=ID, team=TEAM)

    outcome = office.decide(office.message(command, team_submissions(TEAM).name, key="k9"))

    assert outcome.emits == []
    assert len(outcome.dead) == 1
