"""What is old goes and what is young, alive or the newest stays; in pages, on a real database."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator

import pytest
import structlog

from deploy.local.processes import free_port
from services.gateway.app.trims import gateway_trims
from services.gateway.projection.projection import Projection
from services.placement.state.retention import placement_trims
from shared.adapters.clock import SystemClock
from shared.adapters.kafka.topics import create_topics
from shared.adapters.postgres.pool import Database as Pool
from shared.events.topics import TOPICS
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess
from shared.runtime import trimming
from shared.runtime.trimming import DAY_MS, trim
from tests.fixtures.servers import Database

NOW_MS = 1_700_000_000_000
EVENT, REQUEST, WORKLOAD, PREEMPTION, USAGE, WORK_CLASSES = gateway_trims(
    events_days=14, workloads_days=30, usage_days=30
)
(PLACED,) = placement_trims(30)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trimming, "PAGE_ROWS", 3)
    monkeypatch.setattr(trimming, "PAUSE_SECONDS", 0)


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Pool]:
    pool = Pool(database.url("gateway"))
    yield pool
    await pool.close()


@pytest.fixture
async def placement(database: Database) -> AsyncIterator[Pool]:
    pool = Pool(database.url("placement"))
    yield pool
    await pool.close()


def days_ago(days: float) -> int:
    return NOW_MS - int(days * DAY_MS)


async def put_workload(pool: Pool, name: str, days: float, *, live: bool, ended: float) -> None:
    """A workload of the read model with its spec and accepted request."""
    await pool.execute(
        "INSERT INTO gateway.workload (id, team, submitted_at_ms, live, version, state,"
        " changed_at_ms) VALUES ($1, 't', $2, $3, 3, 'x', $4)",
        name,
        days_ago(days),
        live,
        days_ago(ended),
    )
    await pool.execute("INSERT INTO gateway.workload_spec VALUES ($1, '{}')", name)
    await pool.execute("INSERT INTO gateway.preemption_refusal VALUES ($1, 'q', 1, 1, '{}')", name)
    await pool.execute(
        "INSERT INTO gateway.accepted_request VALUES ($1, 't', 'h', 'a', '{}', $2, 1)",
        name,
        days_ago(days),
    )


async def put_event(pool: Pool, seq: int, name: str, days: float) -> None:
    await pool.execute(
        "INSERT INTO gateway.event VALUES ($1, $2, 't', 'x', 1, $3, 's', '', '', '')",
        seq,
        name,
        days_ago(days),
    )


async def left(pool: Pool, table: str, column: str = "id") -> list[object]:
    rows = await pool.fetch(f"SELECT {column} FROM {table} ORDER BY 1")
    return [row[column] for row in rows]


async def test_old_events_go_but_those_of_the_living_and_the_newest_stay(gateway: Pool) -> None:
    await put_workload(gateway, "alive", 40, live=True, ended=20)
    await put_workload(gateway, "over", 40, live=False, ended=20)
    for seq in range(1, 11):
        await put_event(gateway, seq, "alive" if seq in (2, 3, 4, 5) else "over", 15)
    await put_event(gateway, 11, "over", 13)
    await put_event(gateway, 12, "over", 15)

    gone = await trim(gateway, EVENT, NOW_MS)

    assert 6 == gone
    assert [2, 3, 4, 5, 11, 12] == await left(gateway, "gateway.event", "seq")


async def test_numbers_of_events_go_on_when_all_of_them_are_old(gateway: Pool) -> None:
    for seq in range(1, 6):
        await put_event(gateway, seq, "over", 100)
    await trim(gateway, EVENT, NOW_MS)

    projection = Projection()
    await projection.load(gateway)

    assert [5] == await left(gateway, "gateway.event", "seq")
    assert 6 == projection._next_seq


async def test_old_requests_of_what_is_over_go(gateway: Pool) -> None:
    for index in range(5):
        await put_workload(gateway, f"alive{index}", 20, live=True, ended=20)
        await put_workload(gateway, f"over{index}", 20, live=False, ended=1)
    await put_workload(gateway, "young", 13, live=False, ended=13)

    gone = await trim(gateway, REQUEST, NOW_MS)

    stay = [*(f"alive{index}" for index in range(5)), "young"]
    assert 5 == gone
    assert stay == await left(gateway, "gateway.accepted_request", "workload_id")
    assert 11 == len(await left(gateway, "gateway.workload"))


async def test_workloads_that_ended_long_ago_go_with_all_that_belongs_to_them(
    gateway: Pool,
) -> None:
    for index in range(4):
        await put_workload(gateway, f"alive{index}", 40, live=True, ended=40)
        await put_workload(gateway, f"over{index}", 40, live=False, ended=31)
    await put_workload(gateway, "just-over", 40, live=False, ended=29)
    await put_workload(gateway, "young", 29, live=False, ended=29)

    gone = await trim(gateway, WORKLOAD, NOW_MS)

    stay = ["alive0", "alive1", "alive2", "alive3", "just-over", "young"]
    assert 4 == gone
    assert stay == await left(gateway, "gateway.workload")
    assert stay == await left(gateway, "gateway.workload_spec")
    assert stay == await left(gateway, "gateway.preemption_refusal", "workload_id")
    assert stay == await left(gateway, "gateway.accepted_request", "workload_id")


PLACED_ROW = (
    "INSERT INTO placement.workload (id, team, queue, cell, state, version, attempt, priority,"
    " failures, submitted_at_ms, changed_at_ms, deadline_kind, deadline_ms, then_held, reason,"
    " message, nomination, nominated, body, placement, epoch) VALUES ($1, 't', 'q', 0, $2, 1, 0,"
    " 0, 0, $3, $4, '', 0, false, '', '', 0, '', '', '', 1)"
)


async def test_placement_forgets_what_ended_long_ago(placement: Pool) -> None:
    cases = [
        *((f"over{index}", "succeeded", 40, 31) for index in range(4)),
        ("alive", "running", 40, 31),
        ("just-over", "failed", 40, 29),
        ("young", "cancelled", 29, 29),
    ]
    for name, state, submitted, changed in cases:
        await placement.execute(PLACED_ROW, name, state, days_ago(submitted), days_ago(changed))

    gone = await trim(placement, PLACED, NOW_MS)

    assert 4 == gone
    assert ["alive", "just-over", "young"] == await left(placement, "placement.workload")


async def test_old_preemptions_go_and_young_ones_stay(gateway: Pool):
    for name, days in (("a", 40), ("b", 35), ("c", 1)):
        await gateway.execute(
            "INSERT INTO gateway.preemption VALUES"
            " ($1, 'w', 't', 'q', 'f', 'r', $2, false, '[]', '[]')",
            name,
            days_ago(days),
        )

    gone = await trim(gateway, PREEMPTION, NOW_MS)

    left = await gateway.fetch("SELECT plan_id FROM gateway.preemption")
    assert (2, ["c"]) == (gone, [row["plan_id"] for row in left])


async def test_gpu_hours_of_old_days_go_and_young_ones_stay(gateway: Pool):
    for name, days in (("a", 40), ("a", 31), ("b", 31), ("c", 29)):
        for attempt in (1, 2):
            await gateway.execute(
                "INSERT INTO gateway.gpu_usage VALUES"
                " ($1, $2, $3, 0, 't', 'q', 't', 'f', '', '{}', 1, 0, 0, 0, true, 0)",
                days_ago(days) // 86_400_000,
                name,
                attempt,
            )

    gone = await trim(gateway, USAGE, NOW_MS)

    left = await gateway.fetch("SELECT workload_id, attempt FROM gateway.gpu_usage ORDER BY 2")
    assert (6, ["c1", "c2"]) == (gone, [f"{row['workload_id']}{row['attempt']}" for row in left])


async def test_weeks_of_like_work_go_when_all_of_their_days_are_old(gateway: Pool):
    for cell, (name, days) in enumerate((("a", 45), ("b", 39), ("b", 37), ("c", 30))):
        sql = "INSERT INTO gateway.work_class VALUES ($1, $2, $3, 't', '{}', 0)"
        await gateway.execute(sql, days_ago(days) // 86_400_000, cell, name)

    gone = await trim(gateway, WORK_CLASSES, NOW_MS)

    left = await gateway.fetch("SELECT cell FROM gateway.work_class ORDER BY 1")
    assert (2, [2, 3]) == (gone, [row["cell"] for row in left])


@pytest.mark.parametrize("roles", ["projection", "http,projection"])
async def test_a_gateway_trims_by_itself(
    kafka: str, database: Database, topic_prefix: str, gateway: Pool, roles: str
) -> None:
    await put_workload(gateway, "over", 40, live=False, ended=31)

    async with running("gateway", kafka, database, topic_prefix, MUSTER_GATEWAY_ROLES=roles):
        await until_gone(gateway, "gateway.workload")


async def test_placement_trims_by_itself(
    kafka: str, database: Database, topic_prefix: str, placement: Pool
) -> None:
    await placement.execute(PLACED_ROW, "over", "failed", days_ago(40), days_ago(31))

    async with running("placement", kafka, database, topic_prefix):
        await until_gone(placement, "placement.workload")


@contextlib.asynccontextmanager
async def running(
    service: str, kafka: str, database: Database, prefix: str, **more: str
) -> AsyncIterator[None]:
    """A service as a process; killed at the end."""
    await create_topics(KafkaAccess(bootstrap=kafka), prefix, TOPICS)
    environment = os.environ | {
        "MUSTER_KAFKA_BOOTSTRAP": kafka,
        "MUSTER_DATABASE_URL": database.url(service),
        "MUSTER_TOPIC_PREFIX": prefix,
        "MUSTER_HTTP_PORT": str(free_port()),
        "MUSTER_LOG_LEVEL": "error",
        **more,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"services.{service}", env=environment
    )
    try:
        yield
    finally:
        process.kill()
        await process.wait()


async def until_gone(pool: Pool, table: str) -> None:
    async with asyncio.timeout(30):
        while await left(pool, table):
            await asyncio.sleep(0.1)


class Broken:
    """A database that is away for the first query."""

    def __init__(self) -> None:
        self.asked = 0

    async def fetch(self, sql: str, *arguments: object) -> list[dict[str, object]]:
        self.asked += 1
        if self.asked == 1:
            raise Transient("away")
        return [{"seen": 0, "gone": 0, "number": None, "text": None}]


async def test_a_database_that_is_away_only_delays_the_trimming() -> None:
    reader = Broken()
    task = asyncio.create_task(
        trimming.trim_forever(reader, (EVENT, REQUEST), SystemClock(), structlog.get_logger())
    )

    async with asyncio.timeout(5):
        while reader.asked < 2:
            await asyncio.sleep(0.01)

    assert not task.done()
    task.cancel()
