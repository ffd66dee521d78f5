"""What becomes of work is told on its team's results topic, where the team asked for it."""

from __future__ import annotations

import pytest

from shared.core.model.lifecycle import State
from shared.core.model.nouns import Placement
from shared.core.model.reason import Reason
from shared.core.model.units import NOTHING
from shared.events.topics import ORGANISATION_FACTS, WORKLOAD_FACTS, team_results
from shared.events.workloads import (
    SubmissionAnswered,
    WorkloadBound,
    WorkloadChanged,
    WorkloadEvicted,
    WorkloadPlaced,
    WorkloadRequeued,
    WorkloadRunning,
    WorkloadSucceeded,
)
from tests.support.facts import common
from tests.unit.admission.builders import TEAM
from tests.unit.admission.support import (
    ID,
    NoRows,
    Office,
    a_team_document,
    kinds,
    only,
    received,
    rows_of,
)

PLACED = WorkloadPlaced(
    **common(ID, 2, State.PLACED, TEAM),
    placement=Placement(flavor="h100", pods=(), charge=NOTHING),
    placed_at_ms=1,
    submitted_at_ms=1,
)
RUNNING = WorkloadRunning(**common(ID, 4, State.RUNNING, TEAM), running_at_ms=1)
EVICTED = WorkloadEvicted(
    **common(ID, 5, State.EVICTING, TEAM),
    reason=Reason.PREEMPTED,
    message="for w2 of team language",
)
REQUEUED = WorkloadRequeued(
    **common(ID, 6, State.QUEUED, TEAM),
    reason=Reason.FAILED,
    message="tried again in 1 s",
    pod_reason="OOMKilled",
)
ENDED = WorkloadSucceeded(**common(ID, 9, State.SUCCEEDED, TEAM))
STORY = (PLACED, RUNNING, EVICTED, REQUEUED, ENDED)
SINCE_MS = 5_000


class Listening(Office):
    """An office whose team is told since `SINCE_MS`."""

    def __init__(self):
        super().__init__()
        self.switch(on=True)

    def switch(self, *, on, version=2, at_ms=SINCE_MS):
        document = a_team_document(version=version, kafka_events=on)
        return self.decide(received(document, ORGANISATION_FACTS.name, version, at_ms))

    def fact(self, *facts, at_ms=SINCE_MS):
        self.offset += 1
        return self.decide(
            *(received(one, WORKLOAD_FACTS.name, self.offset, at_ms) for one in facts)
        )

    def reads_facts(self):
        return WORKLOAD_FACTS in [topic for topic, _ in self.handler.topics()]


def test_every_step_is_told_in_order_with_its_own_reason():
    outcome = Listening().fact(*STORY)

    told = [one.payload for one in outcome.emits]
    assert [team_results(TEAM)] * 5 == [one.topic for one in outcome.emits]
    names = ["placed", "running", "evicted", "requeued", "succeeded"]
    assert [f"muster.workload.{name}.v1" for name in names] == [one.type for one in told]
    same = ("workload_id", "version", "state", "attempt", "reason", "message", "pod_reason")
    for change, fact in zip(told, STORY, strict=True):
        assert [getattr(fact, one) for one in same] == [getattr(change, one) for one in same]
        assert SINCE_MS == change.at_ms


def test_the_answer_comes_before_what_becomes_of_it():
    office = Listening()

    answered, told = office.kafka(), office.fact(PLACED)

    assert ID == only(answered, SubmissionAnswered).workload_id
    assert ID == only(told, WorkloadChanged).workload_id
    assert office.outcomes.index(answered) < office.outcomes.index(told)


def test_a_team_that_did_not_ask_is_told_answers_alone_and_no_fact_is_read():
    office = Office()

    assert not office.handler.memory.told
    assert WORKLOAD_FACTS not in [topic for topic, _ in office.handler.topics()]
    assert [] == kinds(office.decide(office.message(PLACED, WORKLOAD_FACTS.name)))


def test_other_teams_and_other_facts_are_not_told():
    office = Listening()
    others = WorkloadRunning(**common("w2", 4, State.RUNNING, "blue"), running_at_ms=1)

    assert office.reads_facts()
    assert [] == kinds(office.fact(others, WorkloadBound(**common(ID, 3, State.BOUND, TEAM))))


@pytest.mark.parametrize(("late_ms", "told"), [(-1, 0), (0, 1)])
def test_what_was_before_the_setting_is_not_told(late_ms, told):
    assert told == len(Listening().fact(PLACED, at_ms=SINCE_MS + late_ms).emits)


def test_the_log_is_read_from_a_minute_before_the_setting():
    office = Listening()

    assert SINCE_MS - 60_000 == office.handler.since_ms(WORKLOAD_FACTS.name)
    assert 0 == office.handler.since_ms(ORGANISATION_FACTS.name)


def test_the_time_stays_with_later_documents_and_begins_anew_after_a_pause():
    office = Listening()

    kept = office.switch(on=True, version=3, at_ms=SINCE_MS + 10)
    assert 1 == len(office.fact(PLACED).emits)
    off = office.switch(on=False, version=4, at_ms=SINCE_MS + 20)
    assert ([], False) == (office.fact(RUNNING).emits, office.reads_facts())
    office.switch(on=True, version=5, at_ms=SINCE_MS + 30)

    assert [] == office.fact(EVICTED).emits
    assert 1 == len(office.fact(ENDED, at_ms=SINCE_MS + 30).emits)
    assert [] == rows_of(kept, "told_team")
    (gone,) = rows_of(off, "told_team")
    assert (([TEAM],), 1) == (gone.arguments, gone.expect)


def test_an_older_document_that_comes_late_changes_nothing():
    office = Listening()

    office.switch(on=False, version=1)

    assert office.reads_facts()


async def test_who_is_told_is_kept_as_rows():
    (row,) = rows_of(Listening().outcomes[-1], "told_team")
    told = type(Office().handler.memory.told)()

    await told.load(NoRows([{"team": TEAM, "since_ms": SINCE_MS}]))

    assert (([TEAM], [SINCE_MS]), 1) == (row.arguments, row.expect)
    assert (True, False) == (told.tells(TEAM, SINCE_MS), told.tells("blue", SINCE_MS))
    assert () == told.writes()
