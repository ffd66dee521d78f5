"""Facts about pods that placement never reads: the binder tells them again when it is asked."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from deploy.local.system import DATABASE, LocalSystem
from shared.events.envelope import workload_id
from tests.support.killing import checked
from tests.support.system import TEAM, Stage, launch
from tests.support.work import fleet, submissions

pytestmark = pytest.mark.timeout(180)
SKIP = (
    "UPDATE placement.consumer_offset SET next_offset = (SELECT count(*) FROM binder.outbox"
    " WHERE topic = 'pod.facts.v1') WHERE topic = 'pod.facts.v1' AND partition = 0"
)
"""As if retention had taken what placement has not read; each row is one record by now."""
ENDED = "SELECT count(*) FROM binder.attempt WHERE state = 'finished'"
HELD = "SELECT count(*) FROM placement.allocation"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    folder = tmp_path_factory.mktemp("lost_facts") / "system"
    soon = {"placement": {"MUSTER_SILENT_SECONDS": "2"}}
    left_out = ("fleet", "monitoring", "preemption", "notifications")
    system = launch(folder, leave_out=left_out, overrides=soon)
    yield system
    system.discard()


async def test_an_end_that_placement_never_read_is_asked_for_and_gives_the_gpus_back(
    system: LocalSystem, stage: Stage
) -> None:
    await stage.organise()
    await stage.nodes(list(fleet(2)))
    spec = next(iter(submissions(1, 7, run_seconds=5)))
    assert 202 == await stage.submit_http(spec, "lost")
    lost = workload_id(TEAM, "lost")
    await stage.reaches(lost, "running", 30)

    system.send("placement", signal.SIGSTOP)
    await stage.until(ENDED, 1, 60)
    held = await stage.rows.fetchval(HELD)
    system.postgres.execute(SKIP, database=DATABASE)
    system.kill("placement")
    await stage.reaches(lost, "succeeded", 60)

    assert held > 0
    assert 0 == await stage.rows.fetchval(HELD)
    assert "clean" == checked(stage)
