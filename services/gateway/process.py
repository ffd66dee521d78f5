"""A gateway process: the HTTP server, the projection, or both, until SIGTERM.

On SIGTERM the server stops to accept, streams end, requests in hand are finished, what they
committed is published, and the lease is given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from services.gateway.api.server import application, check_table
from services.gateway.app.backlog import Backlog
from services.gateway.app.committer import Committer
from services.gateway.app.context import GatewayContext
from services.gateway.app.event_hub import EventHub
from services.gateway.app.kubernetes_callers import KubernetesCallers
from services.gateway.app.team_access import TeamAccess
from services.gateway.app.told_starts import score_forever
from services.gateway.app.trims import gateway_trims
from services.gateway.documents.keys import KeyRing
from services.gateway.documents.organisation import OrganisationCache
from services.gateway.http.kubernetes_subjects import named_subjects
from services.gateway.http.rate import Rate
from services.gateway.http.read_turns import ReadTurns
from services.gateway.organisation.bootstrap import prepare
from services.gateway.organisation.team_limits import limit_teams_forever
from services.gateway.projection.projection import Projection
from services.gateway.protocol import OpenConnections, Runner
from services.gateway.settings import GatewaySettings
from services.gateway.usage.savings import tell_savings_forever
from services.gateway.usage.week_telling import tell_weeks_forever
from shared.adapters.clock import SystemClock
from shared.adapters.kafka import KafkaNewest
from shared.adapters.kubernetes.pod_exec import KubernetesPodExec
from shared.adapters.kubernetes.pod_logs import KubernetesPodLogs
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.adapters.kubernetes.token_reviews import KubernetesTokenReviews
from shared.adapters.no_pod_logs import NoPodLogs
from shared.adapters.postgres.pool import Database
from shared.ports.clock import Clock
from shared.ports.pod_exec import PodExec
from shared.ports.pod_logs import PodLogs
from shared.runtime.main import Parts, connect, loop_of, serve_handler
from shared.runtime.newer_log import NewerLog, sealed_by
from shared.runtime.tasks import end
from shared.runtime.trimming import trim_forever
from shared.runtime.watchdog import Watchdog

SERVICE: Final = "gateway"
READ_CONNECTIONS: Final = 6
SHUTDOWN_SECONDS: Final = 8.0
BEAT_SECONDS: Final = 0.5
KEEPALIVE_SECONDS: Final = 75.0


def make_door(settings: GatewaySettings, parts: Parts, reader: Database) -> GatewayContext:
    """The parts of the HTTP process, wired."""
    clock = SystemClock()
    organisation = OrganisationCache(reader, clock)
    return GatewayContext(
        settings=settings,
        reader=reader,
        committer=Committer(
            parts.session,
            reader,
            parts.log,
            waiting_items_max=settings.waiting_requests_max,
            judge=_own_seals(settings).check_if_answered,
        ),
        keys=KeyRing(reader, clock, settings.key_pepper.get_secret_value().encode()),
        organisation=organisation,
        hub=EventHub(reader, parts.log),
        rate=Rate(settings.requests_per_second_max),
        reads=ReadTurns(settings.read_limits, clock),
        backlog=Backlog(reader, clock),
        clock=clock,
        random_bytes=os.urandom,
        team_access=TeamAccess(settings, os.urandom),
        pod_logs=_pod_logs(settings),
        pod_exec=_pod_exec(settings),
        kubernetes=_kubernetes(settings, organisation, clock),
        log=parts.log,
    )


def _shard(settings: GatewaySettings) -> str:
    return f"http-{settings.gateway_shard}"


def _own_seals(settings: GatewaySettings) -> NewerLog:
    """Beside those of other gateways."""
    written = KafkaNewest(settings.kafka, settings.topic_prefix)
    return NewerLog(written, SERVICE, sealed_by(SERVICE, settings.cell), _shard(settings))


def _pod_logs(settings: GatewaySettings) -> PodLogs:
    """Those of the cluster on which the binder starts pods."""
    if settings.cluster == "simulated":
        return NoPodLogs()
    return KubernetesPodLogs(KubernetesSettings())


def _pod_exec(settings: GatewaySettings) -> PodExec | None:
    return None if settings.cluster == "simulated" else KubernetesPodExec(KubernetesSettings())


def _kubernetes(
    settings: GatewaySettings, organisation: OrganisationCache, clock: Clock
) -> KubernetesCallers | None:
    if not settings.kubernetes_login:
        return None
    reviews = KubernetesTokenReviews(KubernetesSettings(), settings.kubernetes_audience)
    operators = named_subjects(settings.kubernetes_operators)
    return KubernetesCallers(reviews, organisation, clock, operators)


def _protocol_log() -> logging.Logger:
    """A client with broken HTTP must not fill the log; failures of ours are logged elsewhere."""
    log = logging.getLogger("muster.http")
    log.setLevel(logging.CRITICAL)
    return log


@contextlib.asynccontextmanager
async def http_server(settings: GatewaySettings) -> AsyncIterator[GatewayContext]:
    """A running HTTP server; ending the block drains it."""
    check_table()
    parts = connect(settings, SERVICE, _shard(settings))
    reader = Database(
        settings.database_url, max_size=READ_CONNECTIONS, name=f"muster-{SERVICE}-read"
    )
    gateway = make_door(settings, parts, reader)
    connections = OpenConnections(settings.connection_limits, parts.log)
    runner = Runner(
        application(gateway),
        connections,
        access_log=None,
        logger=_protocol_log(),
        handler_cancellation=True,
        keepalive_timeout=KEEPALIVE_SECONDS,
        shutdown_timeout=SHUTDOWN_SECONDS,
    )
    gateway.tasks = [
        asyncio.create_task(gateway.committer.run(), name="committer"),
        asyncio.create_task(gateway.hub.run(), name="hub"),
        asyncio.create_task(prepare(gateway), name="prepare"),
        asyncio.create_task(limit_teams_forever(gateway), name="team limits"),
        asyncio.create_task(connections.sweep_forever(), name="connections"),
        asyncio.create_task(tell_weeks_forever(gateway), name="weeks"),
        asyncio.create_task(tell_savings_forever(gateway), name="savings"),
        asyncio.create_task(score_forever(gateway.told_starts, reader, parts.log), name="scores"),
    ]
    try:
        await runner.setup()
        site = web.TCPSite(
            runner, settings.http_host, settings.http_port, backlog=1024, reuse_address=True
        )
        await site.start()
        parts.log.info(
            "listening",
            host=settings.http_host,
            port=settings.http_port,
            connections_max=connections.known.limits.most,
        )
        yield gateway
    finally:
        gateway.closing = True
        gateway.hub.close()
        await runner.cleanup()
        await _end(gateway)
        await gateway.pod_logs.close()
        if gateway.pod_exec is not None:
            await gateway.pod_exec.close()
        if gateway.kubernetes is not None:
            await gateway.kubernetes.close()
        await reader.close()
        await parts.close()
        parts.log.info("stopped")


async def _end(gateway: GatewayContext) -> None:
    """Commit and publish what was accepted, then stop every task."""
    committing, *others = gateway.tasks
    await end(others)
    gateway.committer.stop()
    if gateway.committer.ready:
        await asyncio.wait([committing], timeout=SHUTDOWN_SECONDS)
    await end([committing])


async def run(settings: GatewaySettings) -> None:
    """Do what `gateway_roles` says until SIGTERM or SIGINT."""
    roles = settings.gateway_roles.split(",")
    if roles == ["projection"]:
        await serve_handler(lambda _: make_projection(settings), settings)
        return
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    watchdog = Watchdog(SystemClock(), settings.stuck_seconds)
    watchdog.start()
    try:
        async with asyncio.TaskGroup() as group:
            beating = group.create_task(_beat(watchdog))
            if "projection" in roles:
                group.create_task(_project(settings, watchdog, stopping))
            async with http_server(settings) as gateway:
                await _until_over(gateway, stopping)
            beating.cancel()
    finally:
        watchdog.stop()


async def _until_over(gateway: GatewayContext, stopping: asyncio.Event) -> None:
    """Wait for the signal; raise what a task of the server raised, because nothing mends that."""
    waiting = asyncio.create_task(stopping.wait())
    left = {waiting, *gateway.tasks}
    while waiting in left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


async def _beat(watchdog: Watchdog) -> None:
    """A blocked event loop stops beating, and the process ends."""
    while True:
        watchdog.beat()
        await asyncio.sleep(BEAT_SECONDS)


def make_projection(settings: GatewaySettings) -> Projection:
    """The projection with what it forgets."""
    trims = gateway_trims(
        events_days=settings.keep_events_days,
        workloads_days=settings.keep_workloads_days,
        usage_days=settings.keep_usage_days,
    )
    return Projection(trims)


async def _project(settings: GatewaySettings, watchdog: Watchdog, stopping: asyncio.Event) -> None:
    """The projection beside the server, on a session of its own."""
    parts = connect(settings, SERVICE, f"cell-{settings.cell}")
    projection = make_projection(settings)
    loop, _ = loop_of(parts, projection, watchdog)
    running = asyncio.create_task(loop.run())
    waiting = asyncio.create_task(stopping.wait())
    trimming = asyncio.create_task(
        trim_forever(parts.database, projection.trims, SystemClock(), parts.log)
    )
    tasks = (running, waiting, trimming)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        loop.stop()
        await running
        if trimming.done():
            trimming.result()
    finally:
        await end(tasks)
        await parts.close()
