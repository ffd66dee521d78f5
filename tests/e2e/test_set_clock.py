"""The clock of placement's machine is set while work runs: what is charged does not follow it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from deploy.local.system import LocalSystem
from shared.events.envelope import workload_id
from tests.support.faults import clocks
from tests.support.faults.clocks import SetClock
from tests.support.killing import checked
from tests.support.recovering import named_seconds
from tests.support.system import TEAM, Stage, launch
from tests.support.work import fleet, submissions

pytestmark = pytest.mark.timeout(300)
WORKLOADS = 4
RUN_SECONDS = 3
CHARGED_SECONDS_MAX = 60
STEPS_SECONDS = (3_600, -3_600)
CHARGED = "SELECT ended_at_ms - started_at_ms FROM quota.usage_history"


@dataclass(slots=True)
class SystemWithClock:
    """Processes, and the clock of placement's."""

    local: LocalSystem
    placement: SetClock


@pytest.fixture(scope="module")
def with_clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SystemWithClock]:
    folder = tmp_path_factory.mktemp("set_clock")
    clock = SetClock(folder / "clock" / "placement")
    system = launch(
        folder / "system",
        leave_out=("fleet", "monitoring", "preemption", "notifications"),
        overrides={"placement": clock.environment(clocks.library())},
    )
    yield SystemWithClock(system, clock)
    system.discard()


@pytest.fixture(scope="module")
def system(with_clock: SystemWithClock) -> LocalSystem:
    return with_clock.local


async def test_a_step_of_an_hour_is_named_and_no_interval_follows_it(
    with_clock: SystemWithClock, stage: Stage
) -> None:
    await stage.organise()
    await stage.nodes(list(fleet(4)))

    for step in STEPS_SECONDS:
        keys = [f"step-{step}-{number}" for number in range(WORKLOADS)]
        for key, spec in zip(
            keys, submissions(WORKLOADS, 0, run_seconds=RUN_SECONDS), strict=True
        ):
            assert 202 == await stage.submit_http(spec, key)
        # The last: it cannot have ended while the others were submitted.
        await stage.reaches(workload_id(TEAM, keys[-1]), "running", 30)
        with_clock.placement.set(step)
        await named_seconds(with_clock.local, {"placement"}, "the clock of this machine is")
        with_clock.placement.set(0)
        for key in keys:
            await stage.reaches(workload_id(TEAM, key), "succeeded", 60)

    charged_ms = [row[0] for row in await stage.rows.fetch(CHARGED)]
    assert len(STEPS_SECONDS) * WORKLOADS == len(charged_ms)
    assert 0 < min(charged_ms)
    assert max(charged_ms) < CHARGED_SECONDS_MAX * 1_000
    assert "clean" == checked(stage)
