"""Wires a handler to its broker, database, lease and health server, and runs it.

`services/<name>/__main__.py` calls `run_service`; everything that a test may want to replace is
an argument of `Loop` and `Session`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

import structlog
import uvloop

from shared.adapters.clock import SystemClock
from shared.adapters.kafka import KafkaNewest, KafkaPublisher, KafkaSubscription
from shared.adapters.postgres.lease import PostgresLease
from shared.adapters.postgres.pool import Database
from shared.adapters.postgres.store import PostgresStore
from shared.adapters.slots import this_process
from shared.events.topics import AUDIT_FACTS
from shared.ports.errors import MusterError, SlotTaken
from shared.runtime import telemetry
from shared.runtime.failpoints import Failpoints
from shared.runtime.garbage import relax_garbage_collection
from shared.runtime.giving_way import give_way
from shared.runtime.handler import Dependent, Exposing, Foresighted, Handler
from shared.runtime.health import health_app, serve
from shared.runtime.loop import Loop
from shared.runtime.newer_log import NewerLog, written_by
from shared.runtime.seals import Seals
from shared.runtime.session import Session
from shared.runtime.settings import Settings
from shared.runtime.tasks import end
from shared.runtime.trimming import Trimmed, trim_forever
from shared.runtime.watchdog import Watchdog

LAG_SECONDS = 5.0
SETTLED_SECONDS = 10.0
"""A process that starts, or starts again, catches up at full weight; then it gives way."""


@dataclass(slots=True, kw_only=True)
class Parts:
    """What `connect` made for one (service, shard)."""

    settings: Settings
    database: Database
    store: PostgresStore
    session: Session
    publisher: KafkaPublisher
    log: structlog.stdlib.BoundLogger
    failpoints: Failpoints

    async def close(self) -> None:
        """Release all connections."""
        await self.publisher.close()
        await self.database.close()


def connect(settings: Settings, service: str, shard: str) -> Parts:
    """Database, lease, store, publisher and session of one shard; nothing is opened yet."""
    log = telemetry.logger(service, settings.slot, settings.log_level)
    failpoints = Failpoints.parse(settings.failpoints, settings.seed)
    database = Database(settings.database_url, name=f"muster-{service}")
    lease = PostgresLease(
        database,
        service,
        shard,
        settings.slot,
        time_to_live_seconds=settings.lease_seconds,
        process=this_process(),
    )
    store = PostgresStore(database, lease)
    publisher = KafkaPublisher(settings.kafka, settings.topic_prefix)
    session = Session(
        source=service,
        lease=lease,
        store=store,
        publisher=publisher,
        clock=SystemClock(),
        log=log,
        failpoints=failpoints,
        seals=Seals(service, shard, AUDIT_FACTS.get(service), settings.cell),
    )
    return Parts(
        settings=settings,
        database=database,
        store=store,
        session=session,
        publisher=publisher,
        log=log,
        failpoints=failpoints,
    )


def loop_of(parts: Parts, handler: Handler, watchdog: Watchdog) -> tuple[Loop, KafkaSubscription]:
    """The consumer loop of `handler` on the session of `parts`."""
    settings = parts.settings
    first = [one.name for one in handler.first()] if isinstance(handler, Foresighted) else ()
    subscription = KafkaSubscription(settings.kafka, settings.topic_prefix, first)
    loop = Loop(
        handler=handler,
        session=parts.session,
        reader=parts.database,
        seen=parts.store.seen,
        subscription=subscription,
        clock=SystemClock(),
        log=parts.log,
        failpoints=parts.failpoints,
        beats=watchdog,
        batch_messages_max=settings.batch_messages_max,
        exit_on_decision_error=settings.exit_on_decision_error,
        newer_log=NewerLog(
            KafkaNewest(settings.kafka, settings.topic_prefix),
            handler.name,
            written_by(handler.name, settings.cell),
        ),
    )
    if hasattr(handler, "on_wake"):
        handler.on_wake = subscription.wake
    return loop, subscription


async def watch_lag(
    loop: Loop, subscription: KafkaSubscription, service: str, stuck_seconds: float
) -> None:
    """Export the lag; raise when it stands still above zero for too long."""
    stuck_since: float | None = None
    clock = SystemClock()
    while True:
        await asyncio.sleep(LAG_SECONDS)
        try:
            async with asyncio.timeout(LAG_SECONDS):
                behind = await subscription.behind()
        except Exception:  # noqa: BLE001, S112  # the broker is away: nothing to say about lag
            continue
        telemetry.LAG.labels(service).set(behind)
        delivered = subscription.delivered_since_last()
        if behind == 0 or delivered or not loop.ready:
            stuck_since = None
            continue
        stuck_since = stuck_since or clock.monotonic_seconds()
        if clock.monotonic_seconds() - stuck_since > stuck_seconds:
            raise MusterError(f"{behind} records behind and none delivered")


async def serve_handler(make: Callable[[Settings], Handler], settings: Settings) -> None:
    """Run one handler until SIGTERM or SIGINT."""
    asyncio.get_running_loop().call_later(SETTLED_SECONDS, give_way, settings.niceness)
    handler = make(settings)
    parts = connect(settings, handler.name, f"cell-{settings.cell}")
    watchdog = Watchdog(SystemClock(), settings.stuck_seconds)
    loop, subscription = loop_of(parts, handler, watchdog)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, loop.stop)
    runner = None
    if settings.http_port:
        app = health_app(
            lambda: _is_ready(loop, parts.session, handler),
            lambda: loop.why_not_ready,
            more_paths=handler.expositions() if isinstance(handler, Exposing) else {},
        )
        runner = await serve(app, settings.http_host, settings.http_port)
    watchdog.start()
    lag = asyncio.create_task(watch_lag(loop, subscription, handler.name, settings.stuck_seconds))
    beside = [lag]
    if isinstance(handler, Trimmed):
        trimming = trim_forever(parts.database, handler.trims, SystemClock(), parts.log)
        beside.append(asyncio.create_task(trimming))
    tasks = [asyncio.create_task(loop.run()), *beside]
    try:
        await _first(*tasks)
    finally:
        await end(tasks)
        watchdog.stop()
        if runner is not None:
            await runner.cleanup()
        await parts.close()
        parts.log.info("stopped")


def _is_ready(loop: Loop, session: Session, handler: Handler) -> bool:
    return loop.ready and session.ready and _has_what_it_needs(handler)


def _has_what_it_needs(handler: Handler) -> bool:
    return not isinstance(handler, Dependent) or handler.ready


async def _first(*tasks: asyncio.Task[None]) -> None:
    """Wait for the first task to end, and raise what it raised."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


def run_service(make: Callable[[Settings], Handler]) -> None:
    """Entry point of a service: settings from the environment, until a signal."""
    run_until_over(serve_handler(make, Settings()))


def run_until_over(work: Coroutine[None, None, None]) -> None:
    """Run `work` on uvloop; a second process of a slot ends with 1 and a sentence on stderr."""
    relax_garbage_collection()
    why = ""
    try:
        uvloop.run(work)
    except* SlotTaken as group:
        why = str(group.exceptions[0])
    if why:
        sys.exit(why)
