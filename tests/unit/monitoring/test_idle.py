"""Monitoring tells which work is idle, from reports of use alone."""

import pytest

from services.monitoring.handler import MonitoringHandler
from shared.core.model.nouns import GpuShare
from shared.core.model.team_policy import IdlePolicy
from shared.core.model.value import replace
from shared.core.nodes.idleness import HOLD_MS, REMIND_MS
from shared.events import workloads
from shared.events.idleness import IdlenessEnded, IdlenessNoticed
from shared.events.nodes import HeldDevices, NodeDevicesLearned
from shared.events.organisation import DocumentDeleted, TeamApplied
from shared.events.usage import UsageTold, WorkClassesTold
from tests.unit.monitoring import builders as b

POLICY = IdlePolicy(warn_after_seconds=60, release_after_seconds=120)
STEP_MS = 20_000
RAN_MS = b.START_MS + 1_000


class Watching:
    """A handler with its tables, and what it has told."""

    def __init__(self, policy=POLICY):
        self.tables = b.Tables()
        self.handler = MonitoringHandler()
        self.now_ms = RAN_MS
        self.read(TeamApplied(name="vision", version=1, default_queue="q", idle=policy))

    def read(self, *payloads):
        outcome = self.handler.decide([b.received(one) for one in payloads], b.START_MS)
        self.tables.apply(outcome.writes)
        told = (one.payload for one in outcome.emits)
        return [one for one in told if not isinstance(one, (UsageTold, WorkClassesTold))]

    async def restart(self):
        self.handler = MonitoringHandler()
        await self.handler.load(self.tables)

    def runs(self, workload_id="w1", **more):
        queued = b.queued(workload_id)
        if "idle_timeout_seconds" in more:
            spec = replace(
                queued.workload.spec, idle_timeout_seconds=more.pop("idle_timeout_seconds")
            )
            queued = workloads.WorkloadQueued(
                workload=replace(queued.workload, spec=spec), body_hash=""
            )
        self.read(queued, b.placed(workload_id=workload_id, **more))
        running = b.a_fact(workloads.WorkloadRunning, 3, workload_id, running_at_ms=RAN_MS)
        self.read(running)

    def passes(self, seconds, *percent, node="n1", instances=()):
        """Time with a report every 20 seconds; what is told."""
        told = []
        until_ms = self.now_ms + seconds * 1000
        while self.now_ms < until_ms:
            self.now_ms += STEP_MS
            report = b.usage(*percent, node=node, at_ms=self.now_ms, instances=instances)
            told += self.read(report)
        return told


@pytest.fixture
def watching():
    one = Watching()
    one.runs()
    return one


def test_idle_work_is_noticed_once_and_again_when_it_is_to_be_released(watching):
    (warning,) = watching.passes(100, 3)

    since_ms = RAN_MS + STEP_MS
    assert isinstance(warning, IdlenessNoticed)
    assert (warning.workload_id, warning.attempt, warning.reminder) == ("w1", 1, False)
    assert (warning.since_ms, warning.until_ms) == (since_ms, since_ms + 60_000)
    assert (warning.utilization_percent, warning.percent_below) == (3, 5)
    assert warning.release_at_ms == since_ms + 120_000
    (due,) = watching.passes(40, 0)
    assert (due.reminder, due.until_ms) == (True, since_ms + 120_000)
    (again,) = watching.passes(REMIND_MS // 1000, 0)
    assert (again.reminder, again.utilization_percent) == (True, 3)


def test_work_in_use_is_not_noticed(watching):
    assert [] == watching.passes(1_000, 5)


def test_use_ends_it_and_the_clock_starts_a_while_later(watching):
    watching.passes(100, 0)

    (ended,) = watching.passes(20, 90)
    used_ms = watching.now_ms
    told = watching.passes(HOLD_MS // 1000 + 60, 0)

    assert isinstance(ended, IdlenessEnded)
    assert (ended.reason, ended.workload_id) == ("used", "w1")
    assert [used_ms + HOLD_MS] == [one.since_ms for one in told]


def test_without_reports_nothing_is_told_and_the_clock_starts_anew(watching):
    watching.passes(100, 0)
    watching.now_ms += 600_000

    (ended,) = watching.passes(20, 0)
    began_ms = watching.now_ms

    assert (ended.reason, ended.since_ms) == ("unseen", RAN_MS + STEP_MS)
    assert [began_ms] == [one.since_ms for one in watching.passes(60, 0)]


def test_a_gpu_that_cannot_be_read_says_nothing(watching):
    told = []
    for _ in range(20):
        watching.now_ms += STEP_MS
        told += watching.read(replace(b.usage(0, at_ms=watching.now_ms), unread=(0,)))

    assert [] == told


def learned(attempt=1):
    """Its pod has the second GPU of the node, by its kubelet."""
    share = GpuShare(index=1, mask=255, milli=1000, memory_mib=0)
    placement = b.placed(shares=(share,)).placement
    held = HeldDevices(workload_id="w1", attempt=attempt, placement=placement)
    return NodeDevicesLearned(node="n1", workloads=(held,))


def test_what_counts_is_the_use_of_the_gpus_that_its_pods_really_have(watching):
    watching.passes(40, 0, 90)

    watching.read(learned())
    used = watching.passes(200, 0, 90)
    (warning,) = watching.passes(HOLD_MS // 1000 + 60, 90, 0)

    assert [] == used
    assert isinstance(warning, IdlenessNoticed)


def test_gpus_of_an_attempt_that_is_over_are_nobody_s(watching):
    watching.read(learned(attempt=2))

    assert [] != watching.passes(100, 0, 90)


def test_reports_from_before_it_ran_are_not_its_own(watching):
    watching.now_ms = RAN_MS - 600_001
    told = watching.passes(600, 0)

    assert [] == told
    assert [] == watching.passes(60, 0)


def test_one_gpu_in_use_keeps_all_nodes_of_a_gang():
    watching = Watching()
    watching.runs()
    watching.read(b.resized(4, 3, 1, RAN_MS))

    told = []
    for _ in range(40):
        watching.now_ms += STEP_MS
        for node, percent in (("n1", 0), ("n2", 0), ("n3", 50)):
            told += watching.read(b.usage(percent, node=node, at_ms=watching.now_ms))

    assert [] == told


def test_a_gang_is_noticed_when_its_last_node_is_idle_and_ended_by_any():
    watching = Watching()
    watching.runs()
    watching.read(b.resized(4, 2, 1, RAN_MS))
    told = []
    for number in range(10):
        watching.now_ms += STEP_MS
        for node, percent in (("n1", 0), ("n2", 50 if number < 2 else 1)):
            told += watching.read(b.usage(percent, node=node, at_ms=watching.now_ms))

    (ended,) = watching.read(b.usage(50, node="n2", at_ms=watching.now_ms + 1))

    second_ms = RAN_MS + 2 * STEP_MS
    assert [second_ms + HOLD_MS] == [one.since_ms for one in told]
    assert ended.reason == "used"


def test_of_a_shared_gpu_use_by_one_keeps_the_other():
    watching = Watching()
    half = (GpuShare(index=0, mask=255, milli=500, memory_mib=0),)
    watching.runs("w1", shares=half)
    watching.runs("w2", shares=half)

    assert [] == watching.passes(600, 40)
    assert {"w1", "w2"} == {one.workload_id for one in watching.passes(200, 4)}


def test_a_small_share_in_full_use_is_not_idle():
    watching = Watching()
    watching.runs(shares=(GpuShare(index=0, mask=255, milli=50, memory_mib=0),))

    assert [] == watching.passes(600, 4)


def test_another_size_is_looked_at_anew(watching):
    watching.passes(100, 0)

    watching.read(b.resized(4, 1, 1, watching.now_ms))
    (ended,) = watching.passes(20, 0)

    assert ended.reason == "unseen"


def test_what_stops_running_is_forgotten(watching):
    watching.passes(100, 0)

    watching.read(b.a_fact(workloads.WorkloadEvicted, 4))

    assert {} == watching.handler.memory.watches
    assert [] == watching.passes(600, 0)


def test_without_a_policy_only_an_own_time_out_is_watched():
    watching = Watching(policy=None)
    watching.runs("w1")
    assert [] == watching.passes(600, 0)

    watching.runs("w2", node="n2", idle_timeout_seconds=120)
    (warning,) = watching.passes(80, 0, node="n2")

    assert warning.release_at_ms - warning.since_ms == 120_000


def test_a_policy_that_is_taken_back_ends_what_was_noticed(watching):
    watching.passes(100, 0)

    watching.read(TeamApplied(name="vision", version=2, default_queue="q"))
    (ended,) = watching.passes(20, 0)

    assert ended.reason == "exempt"
    assert [] == watching.passes(600, 0)


async def test_a_restart_forgets_a_minute_at_most(watching):
    watching.passes(100, 0)
    await watching.restart()

    (due,) = watching.passes(40, 0)

    assert (due.reminder, due.since_ms) == (True, RAN_MS + STEP_MS)


async def test_use_that_was_seen_does_not_come_back_as_idleness_with_a_restart(watching):
    watching.passes(60, 0)
    watching.passes(20, 90)
    await watching.restart()

    told = watching.passes(60, 0)

    assert [] == told


def test_a_team_that_is_deleted_has_no_policy(watching):
    watching.read(DocumentDeleted(kind="team", name="vision", version=2))
    watching.read(DocumentDeleted(kind="queue", name="q", version=2))

    assert [] == watching.passes(1_000, 0)


def test_an_idle_slice_beside_a_busy_one_is_noticed_and_the_busy_one_is_not():
    one = Watching()
    for name, mask in (("idle", 0b0011), ("busy", 0b1100)):
        share = GpuShare(index=0, mask=mask, milli=285, memory_mib=20_480)
        one.runs(name, shares=(share,))

    told = one.passes(100, 50, instances=((0, 0b0011, 1), (0, 0b1100, 99)))

    assert [fact.workload_id for fact in told] == ["idle"]


async def test_devices_that_were_written_down_without_their_slices_are_read():
    one = Watching()
    one.runs("w1")
    for seq, (entries, body) in one.tables.journal.items():
        one.tables.journal[seq] = (entries, body.replace(b",1000,255]]", b",1000]]"))
    await one.restart()

    assert one.handler.memory.devices["w1"] == (("n1", 0, 1000, 0),)
    assert one.handler.memory.shares == {"n1": {"w1": ((0, 1000, 0),)}}
    assert len(one.passes(100, 3)) == 1
