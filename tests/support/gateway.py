"""A running gateway for tests: the real server on the real broker and database, and a client."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from deploy.local.processes import free_port
from services.gateway.app.context import GatewayContext
from services.gateway.documents.keys import mint
from services.gateway.process import http_server
from services.gateway.projection.projection import Projection
from services.gateway.settings import GatewaySettings
from shared.adapters.kafka import KafkaPublisher
from shared.adapters.kafka.topics import create_topics
from shared.events.codec import encode_headers, encode_payload
from shared.events.envelope import Event, event_id
from shared.events.registry import NAME_BY_TYPE
from shared.events.topics import TOPICS, Topic
from shared.events.workloads import Wire
from shared.ports.kafka_access import KafkaAccess
from shared.ports.store import OutboxRow
from shared.runtime.settings import Settings
from tests.support.running import running_handler

SPEC = {"name": "train", "kind": "training", "pod_sets": [{"gpu": {"count": 1}}]}


@dataclass(slots=True, kw_only=True)
class Reply:
    """Status, headers and JSON of an answer."""

    status: int
    headers: Any
    body: Any


@dataclass(slots=True, kw_only=True)
class Gateway:
    """A running gateway and how to talk to it."""

    address: str
    operator_key: str
    settings: GatewaySettings
    context: GatewayContext
    http: aiohttp.ClientSession

    async def call(
        self, method: str, path: str, body: Any = None, *, key: str | None = None, **options: Any
    ) -> Reply:
        """One request with `key` (the operator's if none is named; "" sends none)."""
        headers = dict(options.pop("headers", {}))
        key = self.operator_key if key is None else key
        if key:
            headers["Authorization"] = f"Bearer {key}"
        if body is not None:
            options["json"] = body
        async with self.http.request(
            method, self.address + path, headers=headers, **options
        ) as response:
            is_json = response.content_type in {"application/json", "application/problem+json"}
            content = await response.json() if is_json else await response.text()
            return Reply(status=response.status, headers=response.headers, body=content)

    async def key(self, team: str, role: str) -> str:
        """A new API key of a team."""
        reply = await self.call("POST", f"/v1/teams/{team}/keys", {"role": role})
        assert reply.status == 201, reply.body
        return str(reply.body["key"])

    async def organise(self, *teams: str) -> None:
        """A flavor, and for each team a queue of its name."""
        await self.call("PATCH", "/v1/flavors/h100", {})
        for team in teams:
            await self.call("PATCH", f"/v1/teams/{team}", {"kafka": False})
            quota = [{"flavor": "h100", "nominal": {"gpu_milli": 8000}}]
            body = {"team": team, "flavors": quota}
            reply = await self.call("PATCH", f"/v1/queues/{team}", body)
            assert reply.status == 200, reply.body


@contextlib.asynccontextmanager
async def running_gateway(
    kafka: str,
    database_url: str,
    prefix: str,
    *,
    administrator: KafkaAccess | None = None,
    **settings: Any,
) -> AsyncIterator[Gateway]:
    """Start a gateway's HTTP process inside the test; ends it gracefully.

    On a broker with users the topics are made by its `administrator`.
    """
    key = mint(os.urandom).text
    port = free_port()
    chosen = GatewaySettings(
        kafka_bootstrap=kafka,
        database_url=database_url,
        topic_prefix=prefix,
        http_port=port,
        bootstrap_key=key,
        log_level="error",
        **settings,
    )
    await create_topics(administrator or chosen.kafka, prefix, TOPICS)
    async with http_server(chosen) as context, aiohttp.ClientSession() as http:
        await asyncio.wait(context.tasks, return_when=asyncio.FIRST_COMPLETED)  # it is prepared
        assert context.prepared
        yield Gateway(
            address=f"http://127.0.0.1:{port}",
            operator_key=key,
            settings=chosen,
            context=context,
            http=http,
        )


@contextlib.asynccontextmanager
async def running_projection(settings: GatewaySettings) -> AsyncIterator[None]:
    """The projection beside it."""
    async with running_handler(settings, Projection()):
        yield


async def publish_facts(
    settings: Settings, facts: Sequence[tuple[Topic, Wire]], *, source: str, at_ms: int
) -> None:
    """Write facts to the log as another service would."""
    publisher = KafkaPublisher(settings.kafka, settings.topic_prefix)
    rows = []
    for number, (topic, payload) in enumerate(facts, 1):
        event = Event(
            id=event_id(at_ms + number, source, source, number),
            type=NAME_BY_TYPE[type(payload)],
            source=source,
            subject="x",
            time_ms=at_ms + number,
            key="x",
            payload=payload,
        )
        rows.append(
            OutboxRow(
                seq=number,
                event_id=event.id,
                topic=topic.name,
                partition=0,
                key="x",
                headers=encode_headers(event),
                value=encode_payload(payload),
            )
        )
    await publisher.publish(rows)
    await publisher.close()


async def until(condition: Any, seconds: float = 30.0) -> Any:
    """What `condition` answers once it is truthy."""
    async with asyncio.timeout(seconds):
        while True:
            found = await condition()
            if found:
                return found
            await asyncio.sleep(0.02)
