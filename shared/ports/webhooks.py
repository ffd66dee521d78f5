"""Sending to an address that a user wrote, and finding out where a name leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec


class WebhookAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one attempt."""

    status: int = 0
    """Of HTTP; 0: there was no answer."""
    problem: str = ""
    """Why it counts as not delivered; empty: it was."""
    wait_seconds: float = 0.0
    """How long the receiver asks to be left alone."""


class NameResolver(Protocol):
    """Where names lead."""

    async def addresses(self, host: str) -> Sequence[str]:
        """All addresses of a name now; raises OSError where there are none."""
        ...


class Webhooks(Protocol):
    """Sends to one destination, one at a time."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> WebhookAnswer:
        """Send once; every failure is an answer with a problem."""
        ...

    async def close(self) -> None:
        """Close what is open."""
        ...
