"""Lets connections in and closes what `http/connections.py` says; every one is counted and told.

A refused connection, and one whose head is late, gets one answer that says why, as far as its
client reads it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final, Protocol

import structlog

from services.gateway.http.connections import HEAD_SECONDS, Closed, ConnectionLimits, Connections
from services.gateway.http.metrics import CONNECTIONS, CONNECTIONS_CLOSED
from services.gateway.http.problems import CONTENT_TYPE, Problem

SWEEP_SECONDS: Final = 1.0
CLOSED_AT_ONCE: Final = 20
"""Before requests go on: thousands that are overdue together would hold them up."""
TOLD_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 5
_PHRASES: Final = {408: "Request Timeout", 429: "Too Many Requests", 503: "Service Unavailable"}


class ClientConnection(Protocol):
    """What is done to a connection here."""

    transport: asyncio.Transport | None

    def force_close(self) -> None:
        """Take no more requests, and close when what was written is sent."""


class OpenConnections:
    """Those of one server."""

    def __init__(self, limits: ConnectionLimits, log: structlog.stdlib.BoundLogger) -> None:
        self.known: Connections[ClientConnection] = Connections(limits)
        self._log = log
        self._untold: Counter[Closed] = Counter()
        self._answers = {reason: _answer_bytes(one) for reason, one in _problems(limits).items()}
        CONNECTIONS.set_function(self.known.__len__)

    def admit(
        self, connection: ClientConnection, address: str, now_seconds: float
    ) -> Closed | None:
        """Count a connection as open, closing another one if need be; or why it is refused."""
        refused = self.known.refusal(address)
        if refused is not None:
            return refused
        surplus = self.known.surplus()
        if surplus is not None:
            self.close(surplus, Closed.IDLE)
        self.known.opened(connection, address, now_seconds)
        return None

    def close(self, connection: ClientConnection, reason: Closed) -> None:
        """Close a connection, with an answer where one is due."""
        CONNECTIONS_CLOSED.labels(reason.value).inc()
        self._untold[reason] += 1
        self.known.closed(connection)
        transport = connection.transport
        if transport is None:
            return
        if reason is Closed.SLOW_READER:  # what waits to be sent would keep it open
            transport.abort()
            return
        if reason in self._answers:
            transport.write(self._answers[reason])
        connection.force_close()

    async def sweep_forever(self) -> None:
        """Close what is overdue, until cancelled."""
        loop = asyncio.get_running_loop()
        told_at = loop.time() - TOLD_SECONDS
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            for number, (connection, reason) in enumerate(
                list(self.known.overdue(loop.time())), 1
            ):
                self.close(connection, reason)
                if number % CLOSED_AT_ONCE == 0:
                    await asyncio.sleep(0)
            if self._untold and loop.time() - told_at >= TOLD_SECONDS:
                told_at = loop.time()
                self._tell()

    def _tell(self) -> None:
        counts = {reason.value: count for reason, count in self._untold.items()}
        self._untold.clear()
        self._log.warning("connections closed", open=len(self.known), **counts)


def _problems(limits: ConnectionLimits) -> dict[Closed, Problem]:
    full = (
        f"all {limits.most} connections have a request in hand: try again in {RETRY_SECONDS} s;"
        " an operator can raise MUSTER_CONNECTIONS_MAX"
    )
    share = (
        f"your address has {limits.of_peer} open connections, the most of one: close some; an"
        " operator can name a proxy's address in MUSTER_SHARED_PEERS"
    )
    head = f"the head of a request must be complete in {HEAD_SECONDS:.0f} s: send it at once"
    again = {"Retry-After": str(RETRY_SECONDS)}
    return {
        Closed.FULL: Problem(503, "too-many-connections", full, headers=again),
        Closed.PEER_SHARE: Problem(429, "too-many-connections", share, headers=again),
        Closed.SLOW_HEAD: Problem(408, "too-slow", head),
    }


def _answer_bytes(problem: Problem) -> bytes:
    """A whole answer, for a connection without a request that could be answered."""
    body = problem.body()
    headers = {
        **problem.headers,
        "Content-Type": CONTENT_TYPE,
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    lines = [f"HTTP/1.1 {problem.status} {_PHRASES[problem.status]}"]
    lines += [f"{name}: {text}" for name, text in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
