"""Admission on a real database: verdicts, parked submissions and rules outlive the process."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from services.admission import known
from services.admission.handler import AdmissionHandler
from services.admission.parking import NAMES_WAIT_MS
from shared.core.model.lifecycle import State
from shared.events.envelope import workload_id
from shared.events.fingerprint import body_hash
from shared.events.nodes import NodeInventoryReported, NodeRemoved
from shared.events.quotas import EndedWorkloadsCounted
from shared.events.topics import (
    NODE_FACTS,
    ORGANISATION_FACTS,
    SUBMISSION_COMMANDS,
    TEAM_FACTS,
    WORKLOAD_FACTS,
    team_submissions,
)
from shared.events.workloads import SubmissionAnswered, SubmitWorkload, WorkloadRunning
from tests.fixtures.servers import Database
from tests.support.facts import common
from tests.unit.admission.builders import TEAM, a_node, a_spec
from tests.unit.admission.store_desk import Bench
from tests.unit.admission.support import a_queue_document, a_team_document, kinds, received

NOW_MS = 1_700_000_000_000


class Desk(Bench):
    """Numbers the messages; `restart` forgets everything but the rows."""

    offset = 0

    def message(self, payload, topic=SUBMISSION_COMMANDS.name, key=""):
        self.offset += 1
        return received(payload, topic, self.offset, NOW_MS + self.offset, key)

    async def send(self, *payloads, topic=SUBMISSION_COMMANDS.name, key="", at_ms=NOW_MS):
        return await self.decide([self.message(one, topic, key) for one in payloads], at_ms)

    async def restart(self):
        self.handler = AdmissionHandler()
        await self.open()


@pytest.fixture
async def desk(database: Database) -> AsyncIterator[Desk]:
    desk = Desk(AdmissionHandler(), database.url("admission"))
    await desk.open()
    yield desk
    await desk.close()


def submit(number=1, spec=None, team=TEAM):
    spec = spec or a_spec()
    return SubmitWorkload(
        workload_id=workload_id(team, str(number)), team=team, spec=spec, body_hash=body_hash(spec)
    )


async def test_a_verdict_outlives_the_process(desk: Desk) -> None:
    await desk.send(a_team_document(), a_queue_document(), topic=ORGANISATION_FACTS.name)
    await desk.send(submit(1), submit(2, a_spec(name="Bad")))
    await desk.restart()

    again = await desk.send(submit(1), submit(2, a_spec(name="Bad")))
    other = await desk.send(submit(1, a_spec(name="other")))

    assert again.emits == []
    assert kinds(other) == ["SubmissionConflicted"]


async def test_a_rejection_by_kafka_is_answered_the_same_after_a_restart(desk: Desk) -> None:
    topic = team_submissions(TEAM).name
    await desk.send(a_team_document(), a_queue_document(), topic=ORGANISATION_FACTS.name)
    bad = SubmitWorkload(spec=a_spec(name="Bad"))
    first = await desk.send(bad, topic=topic, key="k")
    await desk.restart()

    second = await desk.send(bad, topic=topic, key="k")

    assert kinds(second) == ["SubmissionAnswered"]
    again, before = second.emits[0].payload, first.emits[1].payload
    assert isinstance(before, SubmissionAnswered)
    assert again == replace(before, source_offset=second.emits[0].cause.offset)


async def test_what_memory_forgot_is_found_in_the_table(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.send(a_team_document(), a_queue_document(), topic=ORGANISATION_FACTS.name)
    await desk.send(*(submit(number) for number in range(5)))
    monkeypatch.setattr(known, "KNOWN_MAX", 3)
    await desk.restart()

    again = await desk.send(*(submit(number) for number in range(6)))

    assert [one.subject for one in again.emits] == [workload_id(TEAM, "5")]


async def test_the_rules_outlive_the_process(desk: Desk) -> None:
    await desk.send(a_team_document(), a_queue_document(), topic=ORGANISATION_FACTS.name)
    reports = [NodeInventoryReported(node=a_node(f"n{i}"), generation=1) for i in range(3)]
    await desk.send(*reports, topic=NODE_FACTS.name)
    await desk.send(NodeRemoved(node="n0", generation=2), topic=NODE_FACTS.name)
    await desk.restart()

    later_ms = NOW_MS + 60_000
    fits = await desk.send(submit(1, a_spec(gpus=8, count=2)), at_ms=later_ms)
    unfit = await desk.send(submit(2, a_spec(gpus=8, count=3)), at_ms=later_ms)
    old = await desk.send(reports[0], topic=NODE_FACTS.name, at_ms=later_ms)

    assert kinds(fits) == ["WorkloadQueued"]
    assert kinds(unfit) == ["WorkloadRejected"]
    assert old.writes == []
    assert team_submissions(TEAM).name in [topic.name for topic, _ in desk.handler.topics()]


async def test_a_parked_submission_outlives_the_process(desk: Desk, database: Database) -> None:
    await desk.send(submit(1), submit(2, team="nobody"))
    await desk.restart()

    outcome = await desk.send(a_team_document(), a_queue_document(), topic=ORGANISATION_FACTS.name)
    assert kinds(outcome) == ["WorkloadQueued"]
    await desk.restart()
    due = desk.handler.due(NOW_MS + NAMES_WAIT_MS)
    outcome = await desk.decide(due, NOW_MS + NAMES_WAIT_MS)

    assert kinds(outcome) == ["WorkloadRejected"]
    assert database.execute("SELECT count(*) FROM admission.parked").strip() == "0"
    states = database.execute("SELECT state FROM admission.workload ORDER BY state").split()
    assert states == ["accepted", "rejected"]


async def test_how_many_are_alive_outlives_the_process(desk: Desk) -> None:
    team = a_team_document(max_pending=2)
    await desk.send(team, a_queue_document(), topic=ORGANISATION_FACTS.name)
    await desk.send(submit(1), submit(2))
    ended = EndedWorkloadsCounted(team=TEAM, ended=1)
    await desk.send(ended, topic=TEAM_FACTS.name)
    await desk.restart()

    outcome = await desk.send(submit(3), submit(4))

    assert kinds(outcome) == ["WorkloadQueued", "WorkloadRejected"]


async def test_every_verdict_has_one_audit_row(desk: Desk, database: Database) -> None:
    await desk.send(a_team_document(), a_queue_document(), topic=ORGANISATION_FACTS.name)
    await desk.send(submit(1), submit(1), submit(2, a_spec(name="Bad")))

    rows = database.execute("SELECT before, after, version FROM admission.audit ORDER BY seq")

    assert rows.split() == ["received|queued|1", "received|rejected|1"]


async def test_which_teams_are_told_of_their_work_outlives_the_process(desk: Desk) -> None:
    on, off = (a_team_document(version=n, kafka_events=n == 1) for n in (1, 2))
    runs = WorkloadRunning(**common("w1", 4, State.RUNNING, TEAM), running_at_ms=NOW_MS)
    await desk.send(on, topic=ORGANISATION_FACTS.name)
    await desk.restart()

    told = await desk.send(runs, topic=WORKLOAD_FACTS.name)
    await desk.send(off, topic=ORGANISATION_FACTS.name)
    await desk.restart()
    silent = await desk.send(runs, topic=WORKLOAD_FACTS.name)

    assert kinds(told) == ["WorkloadChanged"]
    assert silent.emits == []
