"""Faults of Muster itself: its services, its broker and database, and those that it tells."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Final

import asyncpg
from confluent_kafka.admin import AclBinding, AclOperation, ResourceType

from deploy.local.roles import role_name
from shared.adapters.kafka.admin_client import Administration
from shared.core.health.breaker import HOUR_MS
from shared.core.health.device import DeviceState
from shared.events.grants import principal_of
from shared.events.nodes import DeviceHealthChanged
from shared.events.topics import QUEUE_FACTS, WORKLOAD_FACTS
from shared.ports.store import OutboxRow
from tests.observe import live
from tests.observe.chaos.faults import Scene, raises
from tests.support.system import now_ms
from tests.support.work import record

OPEN_MS: Final = 30_000
STUCK: Final = "preemption"
NO_DATABASE: Final = "quota"


@raises("HealthBreakerOpen")
async def breaker(scene: Scene) -> AsyncIterator[None]:
    """The breaker kept a GPU in service, an hour ago but for half a minute; as placement tells."""
    at_ms = now_ms() - HOUR_MS + OPEN_MS
    kept = DeviceHealthChanged(
        node="n-0001",
        gpu=0,
        uuid="",
        before=DeviceState.HEALTHY,
        after=DeviceState.DRAINING,
        rule="xid-reset",
        done=False,
        breaker=True,
    )
    row = record(kept, WORKLOAD_FACTS, "n-0001", "breaker", at_ms, 0)
    await scene.stage.publish([row])
    yield


@raises("NotificationsFailing")
async def broken_receiver(scene: Scene) -> AsyncIterator[None]:
    """A destination of notifications answers nothing but errors."""
    scene.hook.moods["/"] = "error"
    job = await live.submit(scene.stage, "told-of", 1)
    await scene.stage.reaches(job, "running", 60)
    yield
    scene.hook.moods["/"] = "ok"
    await scene.stage.command(job, "cancel")


@raises("DeadLetters")
async def unreadable(scene: Scene) -> AsyncIterator[None]:
    """A record on the log that is no message."""
    row = OutboxRow(
        seq=0,
        event_id="unreadable",
        topic=QUEUE_FACTS.name,
        partition=0,
        key="",
        headers=[],
        value=b"{",
    )
    await scene.stage.publish([row])
    yield


@raises("ServiceUnreachable", alone=True)
async def stopped_service(scene: Scene) -> AsyncIterator[None]:
    """A service stands still."""
    scene.live.system.send("notifications", signal.SIGSTOP)
    yield
    scene.live.system.send("notifications", signal.SIGCONT)


@raises("OutboxOld", alone=True)
async def stopped_broker(scene: Scene) -> AsyncIterator[None]:
    """The broker stands still while submissions are taken."""
    scene.live.system.send("kafka", signal.SIGSTOP)
    late = await live.submit(scene.stage, "told-late", 1)
    yield
    scene.live.system.send("kafka", signal.SIGCONT)
    await scene.stage.reaches(late, "running", 60)
    await scene.stage.command(late, "cancel")


@raises("ReloadLoop", alone=True)
async def refused_by_database(scene: Scene) -> AsyncIterator[None]:
    """The database lets a service in no more, and ends what it does."""
    role = role_name(NO_DATABASE)
    owner = await asyncpg.connect(scene.live.system.postgres.url())
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1"
    try:
        await owner.execute(f"ALTER ROLE {role} NOLOGIN")
        await owner.execute(cut, role)
        yield
        await owner.execute(f"ALTER ROLE {role} LOGIN")
    finally:
        await owner.close()


@raises("ConsumerStuck", alone=True)
async def may_not_read(scene: Scene) -> AsyncIterator[None]:
    """The broker tells a service how much there is to read, and gives it nothing."""
    administration = Administration(scene.live.system.kafka.administrator)
    found = await asyncio.to_thread(administration.found, principal=f"User:{principal_of(STUCK)}")
    reads = [one for one in found if one.operation is AclOperation.READ]
    instead = [_describing(one) for one in reads if one.restype is ResourceType.TOPIC]
    await asyncio.to_thread(administration.create, instead)
    await asyncio.to_thread(administration.delete, reads)
    yield
    await asyncio.to_thread(administration.create, reads)
    await asyncio.to_thread(administration.delete, instead)


def _describing(rule: AclBinding) -> AclBinding:
    """The same, for the ends of a topic alone."""
    return AclBinding(
        restype=rule.restype,
        name=rule.name,
        resource_pattern_type=rule.resource_pattern_type,
        principal=rule.principal,
        host=rule.host,
        operation=AclOperation.DESCRIBE,
        permission_type=rule.permission_type,
    )
