"""API keys and Kafka users of teams: what is sent, and what is answered."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from services.gateway.authorisation import Role
from services.gateway.views import Name, Request, View


class KeyRequest(Request, frozen=True, kw_only=True):
    """A new API key of a team; never stronger than the key that makes it."""

    role: Role
    label: Name = ""
    expires_in_seconds: Annotated[int, Meta(ge=1, le=10 * 366 * 86_400)] | None = None


class KeyView(View, frozen=True, kw_only=True):
    """An API key without its secret."""

    prefix: str
    team: str
    role: Role
    label: str
    created_by: str
    created_at_ms: int
    expires_at_ms: int | None
    revoked_at_ms: int | None


class KeyPage(View, frozen=True, kw_only=True):
    """All keys of a team."""

    items: tuple[KeyView, ...]
    next_cursor: str


class NewKeyView(View, frozen=True, kw_only=True):
    """A new key; `key` is shown this once."""

    key: str
    prefix: str
    team: str
    role: Role
    label: str
    expires_at_ms: int | None


class KafkaUserView(View, frozen=True, kw_only=True):
    """How a team connects to Kafka; `password` is shown this once."""

    bootstrap: str
    security_protocol: str
    mechanism: str
    user: str
    password: str
    submissions_topic: str
    """Where it may write."""
    results_topic: str
    """Where it may read."""
    consumer_group: str
    """The one group that it may use."""
