"""One request to Muster, or one stream from it: sent, repeated while that helps, answered."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from muster.configuration import find
from muster.errors import MusterError, Unreachable, error_of
from muster.streams import events_of

if TYPE_CHECKING:
    import aiohttp

Json = dict[str, Any]
TIMEOUT_SECONDS: Final = 30.0
TRIES_MAX: Final = 6
BACKOFF_SECONDS: Final = 0.2
BACKOFF_SECONDS_MAX: Final = 10.0
RETRIED: Final = frozenset({429, 503})


class Transport:
    """Talks to one address with one key; use it as an asynchronous context manager."""

    def __init__(
        self,
        address: str | None = None,
        key: str | None = None,
        *,
        context: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        tries_max: int = TRIES_MAX,
    ) -> None:
        """`context` of a kubeconfig has address and token, "" is its current one."""
        configuration = find(address, key, context=context)
        self._team = configuration.team
        self.address = configuration.address
        self._key = configuration.key
        self._timeout_seconds = timeout_seconds
        self._tries_max = tries_max
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open lazily: nothing is sent yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self.close()

    async def close(self) -> None:
        """Release connections; the client may be used again."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _stream(
        self, path: str, after: str, query: Mapping[str, str]
    ) -> AsyncIterator[tuple[str, Json | None]]:
        import aiohttp

        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": after} if after else {})}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60)
        try:
            async with self._open().get(
                self.address + path, params=query, headers=headers, timeout=timeout
            ) as response:
                if response.status != 200:  # noqa: PLR2004
                    raise error_of(response.status, await _body(response))
                async for event in events_of(response.content):
                    yield event
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(error) from error

    async def _bytes(self, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The body of a plain answer, piece by piece, however long it takes to come."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        try:
            async with self._open().get(
                self.address + path, params=query, timeout=timeout
            ) as response:
                if response.status != 200:  # noqa: PLR2004
                    raise error_of(response.status, await _body(response))
                async for piece in response.content.iter_any():
                    yield piece
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(error) from error

    async def _lines(self, path: str, body: Json) -> AsyncIterator[Json]:
        """The JSON lines that answer a POST, as they come; sent once, whatever becomes of it."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        try:
            async with self._open().post(
                self.address + path, json=body, timeout=timeout
            ) as response:
                if response.status != 200:  # noqa: PLR2004
                    raise error_of(response.status, await _body(response))
                async for line in response.content:
                    yield json.loads(line)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(error) from error

    async def _json(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,  # noqa: ANN401  # any JSON
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        _, answer, _ = await self._send(method, path, body=body, query=query, headers=headers)
        return answer if isinstance(answer, dict) else {}

    async def _send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,  # noqa: ANN401  # any JSON
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        tries_max: int | None = None,
    ) -> tuple[int, Any, Mapping[str, str]]:
        """Send until it is answered; every route may be repeated, but for new API keys."""
        import aiohttp

        failure: MusterError = Unreachable("not tried")
        tries_max = tries_max or self._tries_max
        for attempt in range(tries_max):
            wait_seconds = backoff_seconds(attempt)
            try:
                async with self._open().request(
                    method, self.address + path, json=body, params=query, headers=headers
                ) as response:
                    answer = await _body(response)
                    if response.status < 400:  # noqa: PLR2004
                        return response.status, answer, response.headers
                    failure = error_of(response.status, answer)
                    if response.status not in RETRIED:
                        raise failure
                    wait_seconds = _retry_after(response.headers, wait_seconds)
            except (aiohttp.ClientError, TimeoutError) as error:
                failure = self._unreachable(error)
            if attempt + 1 < tries_max:
                await asyncio.sleep(wait_seconds)
        raise failure

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            headers = {"Authorization": f"Bearer {self._key}", "User-Agent": "muster"}
            self._session = aiohttp.ClientSession(
                headers=headers | ({"Muster-Team": self._team} if self._team else {}),
                timeout=aiohttp.ClientTimeout(total=self._timeout_seconds, sock_connect=10),
            )
        return self._session

    def _unreachable(self, error: Exception) -> Unreachable:
        text = str(error) or type(error).__name__
        return Unreachable(f"{self.address} does not answer: {text}")


def backoff_seconds(attempt: int) -> float:
    """Exponential with jitter, so that many clients do not come back together."""
    longest = min(BACKOFF_SECONDS * 2.0**attempt, BACKOFF_SECONDS_MAX)
    return random.uniform(longest / 2, longest)


def _retry_after(headers: Mapping[str, str], otherwise: float) -> float:
    text = headers.get("Retry-After", "")
    return min(float(text), BACKOFF_SECONDS_MAX) if text.isdigit() else otherwise


async def _body(response: aiohttp.ClientResponse) -> Any:  # noqa: ANN401  # any JSON
    text = await response.text(errors="replace")
    if "json" not in response.headers.get("Content-Type", ""):
        return text

    try:
        return json.loads(text)
    except ValueError:
        return text
