"""`muster-ops check --cluster`: live pods of the simulated cluster against the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from operations.check.model import CannotCheck
from operations.check.pods import check_pods
from services.binder.stored_pods import written
from shared.adapters.clock import SystemClock
from shared.adapters.simulated_cluster import SimulatedCluster
from shared.ports.cluster import Pod, PodOperation
from shared.simulator.cluster.server import serving
from shared.simulator.cluster.settings import ClusterSettings
from tests.fixtures.servers import Database
from tests.unit.operations import world as w

WORK = "w" + "d" * 26
HELD = "UPDATE placement.workload SET state = "
GONE = "UPDATE binder.attempt SET state = 'gone', active = false"
LETS_GO = "DELETE FROM placement.allocation"


def a_pod(rank: int, *, attempt: int = 1, seconds: float | None = None) -> Pod:
    return Pod(
        name=f"{WORK}-{attempt}-{rank}", workload_id=WORK, attempt=attempt, rank=rank, size=2,
        epoch=1, duration_seconds=seconds,
    )  # fmt: skip


class Planted:
    """A gang of two whole GPUs that runs, in the ledger; the pods are planted."""

    def __init__(self, url: str, database: Database) -> None:
        self.url, self.database = url, database
        self._cluster = SimulatedCluster(url)
        rows = [w.allocation_row(WORK, rank=rank, node=f"n{rank}") for rank in range(2)]
        placed = w.placement(*(w.pod(rank, w.share(), node=f"n{rank}") for rank in range(2)))
        pods = written((a_pod(0), a_pod(1)))
        database.execute(
            "ALTER TABLE placement.allocation DISABLE TRIGGER ALL",
            *rows,
            w.workload_row(WORK, "running", 3, placed),
            w.attempt_row(WORK, "running", size=2),
            f"UPDATE binder.attempt SET pods = '{pods}'",
        )

    async def run(self, pod: Pod, node: str) -> None:
        """Create it and bind it, as an API client."""
        create = PodOperation(verb="create", name=pod.name, pod=pod)
        (made,) = await self._cluster.apply([create])
        assert made.pod is not None, made
        bind = PodOperation(verb="bind", name=pod.name, uid=made.pod.uid, node=node)
        (bound,) = await self._cluster.apply([bind])
        assert bound.status < 300, bound

    async def found(self, settle_seconds: float = 0.0) -> list[str]:
        work = check_pods(self.database.url(), self.url, "default", settle_seconds=settle_seconds)
        return [f"{one.subject}: {one.detail}" for one in (await work).violations]

    async def close(self) -> None:
        await self._cluster.close()


@pytest.fixture
async def planted(database: Database, tmp_path: Path) -> AsyncIterator[Planted]:
    settings = ClusterSettings(
        state=tmp_path / "cluster", port=0, start_delay_seconds=0, heartbeat_seconds=0.1
    )
    async with serving(settings, SystemClock()) as (_, port):
        planted = Planted(f"http://127.0.0.1:{port}", database)
        yield planted
        await planted.close()


SECOND = (a_pod(1), "n1")
FIND = {
    "nothing, where all agrees": ([SECOND], [], []),
    "a pod is missing": (
        [],
        [],
        [f"{WORK}-1-1: is missing: the ledger has it on n1, no pod is there"],
    ),
    "a pod is elsewhere": (
        [(a_pod(1), "n7")],
        [],
        [f"default/{WORK}-1-1: is on n7, the ledger has it on n1"],
    ),
    "a pod runs without an attempt that holds GPUs": (
        [SECOND, (a_pod(0, attempt=2), "n7")],
        [],
        [
            f"{WORK}: is doubled: live pods of attempts 1 and 2",
            f"default/{WORK}-2-0: is on n7, but the ledger has no row for it",
        ],
    ),
    "GPUs were given back while the pods run": (
        [SECOND],
        [LETS_GO, GONE, HELD + "'queued'"],
        [
            *(
                f"default/{WORK}-1-{rank}: is on n{rank}, but the ledger has no row for it"
                for rank in range(2)
            ),
            *(
                f"default/{WORK}-1-{rank}: is on n{rank}, and its GPUs were given back before: "
                "the workload is queued at attempt 1"
                for rank in range(2)
            ),
        ],
    ),
}


@pytest.mark.parametrize("what", FIND)
async def test_a_difference_of_ledger_and_simulated_cluster_is_found(planted: Planted, what: str):
    pods, statements, told = FIND[what]
    for pod, node in [(a_pod(0), "n0"), *pods]:
        await planted.run(pod, node)
    if statements:
        planted.database.execute(*statements)

    assert await planted.found() == told


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        ([], "all its pods have ended"),
        ([GONE], "all its pods have ended"),
        (["DELETE FROM binder.attempt"], "all its pods have ended"),
    ],
)
async def test_gpus_are_held_and_the_pods_have_ended(
    planted: Planted, statements: list[str], told: str
):
    for rank in range(2):
        await planted.run(a_pod(rank, seconds=0.01), f"n{rank}")
    if statements:
        planted.database.execute(*statements)
    await asyncio.sleep(0.2)

    assert await planted.found() == [f"{WORK}: attempt 1 holds devices, but {told}"]


async def test_gpus_are_held_and_the_binder_was_never_told(planted: Planted):
    planted.database.execute("DELETE FROM binder.attempt")

    what = "it has no pod, and the binder does not know it"
    assert await planted.found() == [f"{WORK}: attempt 1 holds devices, but {what}"]


async def test_a_release_before_the_end_of_the_pods_counts_though_they_end(planted: Planted):
    """Seen once it is proof; what is only a difference goes away with the pods."""
    planted.database.execute(LETS_GO, GONE, HELD + "'queued'")  # before: it takes its time
    for rank in range(2):
        await planted.run(a_pod(rank, seconds=2.0), f"n{rank}")

    told = await planted.found(settle_seconds=8.0)

    assert len(told) == 2
    assert all("its GPUs were given back before" in one for one in told), told


async def test_a_cluster_that_does_not_answer_is_no_health(database: Database):
    work = check_pods(database.url(), "http://127.0.0.1:1", "default", settle_seconds=0)

    with pytest.raises(CannotCheck, match="simulated cluster at http"):
        await work
