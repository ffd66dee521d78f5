"""Requests to one API server: bounded, patient, and with time-outs of their own.

The configuration (kubeconfig or service account, with its renewal of tokens) and the session are
those of kubernetes_asyncio; bodies are raw bytes, because its models cost twenty times as much to
decode. Its session has a total time-out of 300 s that cuts watches, so each request names its own.

- At most `requests_at_once` requests are on their way; the others wait.
- 429 says when to come again (`Retry-After`): until then no request is sent.
- A request that got no answer raises `NoAnswer`: nothing is known of what it did.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
import msgspec
import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.client.rest import RESTClientObject
from kubernetes_asyncio.config import ConfigException, load_incluster_config
from kubernetes_asyncio.config.kube_config import KubeConfigLoader

from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.ports.errors import Transient

REQUEST_SECONDS_MAX: Final = 15.0
CONNECT_SECONDS_MAX: Final = 5.0
TRIES_MAX: Final = 3
"""Of a request that is answered 429."""
RETRY_SECONDS_MAX: Final = 10.0
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
ADDING_PATCH: Final = "application/strategic-merge-patch+json"
"""Adds to owners, reservations and conditions; a merge patch would take their place."""
ANYTHING: Final = "*/*"
THROTTLED: Final = 429
UNAUTHORISED: Final = 401
FAILURES: Final = (aiohttp.ClientError, TimeoutError, OSError)


class NoAnswer(Transient):
    """Nothing is known of a request: it may or may not have been carried out."""


class Answer(NamedTuple):
    """An answer of the API server, whatever its status."""

    status: int
    body: bytes


class Connection:
    """One session with an API server, opened by the first request; `close` it at the end."""

    def __init__(
        self, settings: KubernetesSettings, *, requests_at_once: int | None = None
    ) -> None:
        """`requests_at_once`: fewer or more than the settings say."""
        self._config = settings.config
        self._context = settings.context
        self._at_once = requests_at_once or settings.requests_at_once
        self._slots = asyncio.Semaphore(self._at_once)
        self._opening = asyncio.Lock()
        self._configuration: Configuration | None = None
        self._rest: RESTClientObject | None = None
        self._not_before = 0.0
        self._encoder = msgspec.json.Encoder()

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Answer:
        """The answer, of whatever status.

        Raises:
            NoAnswer: none came in time, or no connection could be made.
        """
        content = None if body is None else self._encoder.encode(body)
        for tries_left in reversed(range(TRIES_MAX)):
            async with self._slots:
                await self._wait_for_turn()
                answer = await self._once(method, path, content, query, (content_type, accept))
            if answer.status != THROTTLED or not tries_left:
                return answer
        raise AssertionError("the last try returns")

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str], silence_seconds_max: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer that comes in lines; broken off after so long a silence.

        Raises:
            Transient: no connection could be made.
        """
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS_MAX, sock_read=silence_seconds_max
        )
        session, url = await self._opened(), self._url(path)
        headers = await self._headers(JSON, JSON)
        async with session.get(url, params=query, headers=headers, timeout=timeout) as response:
            yield response

    @asynccontextmanager
    async def websocket(
        self, path: str, query: Sequence[tuple[str, str]], protocol: str
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A WebSocket that speaks one subprotocol; raises the errors of aiohttp.

        The API server passes its headers on to the kubelet, which has no JSON there (406).
        """
        session, url = await self._opened(), self._url(path)
        headers = await self._headers(JSON, ANYTHING)
        async with asyncio.timeout(REQUEST_SECONDS_MAX):
            socket = await session.ws_connect(
                url, params=query, protocols=(protocol,), headers=headers
            )
        try:
            yield socket
        finally:
            await socket.close()

    async def close(self) -> None:
        """Close all connections; the next request opens them again."""
        rest, self._rest = self._rest, None
        if rest is not None:
            await rest.close()

    async def _once(
        self,
        method: str,
        path: str,
        content: bytes | None,
        query: Mapping[str, str] | None,
        forms: tuple[str, str],
    ) -> Answer:
        timeout = aiohttp.ClientTimeout(
            total=REQUEST_SECONDS_MAX, sock_connect=CONNECT_SECONDS_MAX
        )
        try:
            session = await self._opened()
            url, headers = self._url(path), await self._headers(*forms)
            async with session.request(
                method,
                url,
                data=content,
                params=query,
                headers=headers,
                timeout=timeout,
            ) as response:
                self._note(response)
                return Answer(response.status, await response.read())
        except FAILURES as error:
            raise NoAnswer(f"Kubernetes API: {type(error).__name__}: {error}") from error

    async def _wait_for_turn(self) -> None:
        """Sleep for as long as the server has asked for."""
        seconds = self._not_before - asyncio.get_running_loop().time()
        if seconds > 0:
            await asyncio.sleep(seconds)

    def _note(self, response: aiohttp.ClientResponse) -> None:
        """After 401 the configuration is read again: its token may have been renewed."""
        if response.status == UNAUTHORISED:
            self._configuration = None
        if response.status == THROTTLED:
            seconds = _seconds(response.headers.get("Retry-After", ""))
            now = asyncio.get_running_loop().time()
            self._not_before = max(self._not_before, now + seconds)

    async def _opened(self) -> aiohttp.ClientSession:
        async with self._opening:
            if self._configuration is None:
                self._configuration = await self._configured()
            if self._rest is None:
                self._rest = RESTClientObject(self._configuration, maxsize=self._at_once + 4)
        session: aiohttp.ClientSession = self._rest.pool_manager
        return session

    async def _configured(self) -> Configuration:
        """Read the configuration; raises Transient with one clear line."""
        configuration = Configuration()
        try:
            if self._config:
                await self._kubeconfig_loader().load_and_set(configuration)
            else:
                load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        except (ConfigException, OSError, yaml.YAMLError, AttributeError, TypeError) as error:
            where = self._config or "the service account of this pod"
            raise Transient(
                f"Kubernetes: {where}: {error}; set MUSTER_KUBE_CONFIG to a kubeconfig file"
            ) from error
        # A server that signs its own certificate marks it in a way that is refused since 3.13.
        configuration.disable_strict_ssl_verification = True
        return configuration

    def _kubeconfig_loader(self) -> KubeConfigLoader:
        """Of one file; the library's own way takes a colon in a path for two files."""
        path = Path(self._config)
        return KubeConfigLoader(
            config_dict=yaml.safe_load(path.read_text()),
            config_base_path=str(path.parent.resolve()),
            active_context=self._context or None,
        )

    def _url(self, path: str) -> str:
        return f"{self._configuration.host if self._configuration else ''}{path}"

    async def _headers(self, content_type: str, accept: str) -> dict[str, str]:
        headers = {"Content-Type": content_type, "Accept": accept}
        configuration = self._configuration
        if configuration is not None:
            token = await configuration.get_api_key_with_prefix("BearerToken")
            if token:
                headers["Authorization"] = token
        return headers


def _seconds(text: str) -> float:
    """Of a Retry-After; a second where it says nothing that is a number."""
    try:
        return min(max(float(text), 0.0), RETRY_SECONDS_MAX)
    except ValueError:
        return 1.0
