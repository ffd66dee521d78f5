"""Sends webhooks with aiohttp, only to addresses that the rules allow (docs/adr/0093).

A name is resolved once for a connection, every address of the answer is judged, and the
connection goes to one that was judged: another answer of DNS later changes nothing. Host and SNI
stay those of the name. Redirects are not followed, proxies of the environment are not used.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Mapping, Sequence
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from shared.core.notifications.addresses import (
    Network,
    is_plain,
    problem_of_address,
    problem_of_url,
)
from shared.ports.webhooks import NameResolver, WebhookAnswer

ANSWER_BYTES_MAX: Final = 4_096
PROBLEM_CHARACTERS_MAX: Final = 200
WAIT_SECONDS_MAX: Final = 3_600.0


class SystemNames:
    """The machine's own resolver."""

    async def addresses(self, host: str) -> Sequence[str]:
        """All addresses, as getaddrinfo tells them."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(one[4][0]) for one in found))


class ForbiddenAddressError(OSError):
    """A name leads where nothing is sent to."""


class _JudgedNames(AbstractResolver):
    """What aiohttp connects to: judged for the URL in hand."""

    def __init__(self, names: NameResolver, networks: Sequence[Network]) -> None:
        self._names, self._networks = names, networks
        self.plain = False

    async def resolve(  # type: ignore[explicit-override]  # new in Python 3.12
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """All addresses of the name, or an error where one of them is forbidden."""
        del family
        found = await self._names.addresses(host)
        if not found:
            raise OSError(errno.EADDRNOTAVAIL, f"{host} has no address")
        for address in found:
            problem = problem_of_address(address, self._networks, plain=self.plain)
            if problem:
                raise ForbiddenAddressError(
                    errno.EACCES, f"{host} leads to {address}, which {problem}"
                )
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in found
        ]

    async def close(self) -> None:  # type: ignore[explicit-override]  # new in Python 3.12
        """Nothing is open."""


class HttpWebhooks:
    """One destination's connection."""

    def __init__(
        self,
        names: NameResolver,
        networks: Sequence[Network],
        timeout_seconds: float,
    ) -> None:
        self._networks = tuple(networks)
        self._names = _JudgedNames(names, self._networks)
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> WebhookAnswer:
        """See the port. A literal address is judged with its URL: aiohttp resolves none."""
        problem = problem_of_url(url, self._networks)
        if problem:
            return WebhookAnswer(problem=f"the URL {problem}")
        self._names.plain = is_plain(url)
        try:
            return await self._post(url, headers, body)
        except TimeoutError:
            return WebhookAnswer(problem=f"no answer within {self._timeout.total:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return WebhookAnswer(problem=_one_line(str(error) or type(error).__name__))

    async def _post(self, url: str, headers: Mapping[str, str], body: bytes) -> WebhookAnswer:
        async with self._open().post(
            url, data=body, headers=dict(headers), allow_redirects=False
        ) as response:
            await _read_some(response.content)
            if response.status // 100 == 2:  # noqa: PLR2004  # 2xx
                return WebhookAnswer(status=response.status)
            problem = f"answered {response.status}"
            if response.status // 100 == 3:  # noqa: PLR2004  # 3xx
                problem += ": redirects are not followed"
            return WebhookAnswer(
                status=response.status,
                problem=problem,
                wait_seconds=_wait_seconds(response.headers.get("Retry-After", "")),
            )

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                resolver=self._names, use_dns_cache=False, limit=1, keepalive_timeout=15
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=self._timeout,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session

    async def close(self) -> None:
        """Close the connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


async def _read_some(content: aiohttp.StreamReader) -> None:
    """To the end, or as much as is wanted; raises where the answer ends too early."""
    left = ANSWER_BYTES_MAX
    while left > 0 and (piece := await content.read(left)):
        left -= len(piece)


def _wait_seconds(text: str) -> float:
    """Retry-After in seconds; its form with a date counts as not said."""
    return min(float(text), WAIT_SECONDS_MAX) if text.isascii() and text.isdigit() else 0.0


def _one_line(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text)[:PROBLEM_CHARACTERS_MAX]
