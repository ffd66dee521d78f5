"""API keys and Kafka users of teams: what is sent, and what is answered."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from services.gateway.http.authorisation import Role
from services.gateway.http.views import Name, Request, View


class KeyRequest(Request, frozen=True, kw_only=True):
    """A new API key of a team; never stronger than the key that makes it."""

    role: Role
    """What the key may do at most; not more than the key that makes it."""
    label: Name = ""
    """Name for people; it need not be unique."""
    expires_in_seconds: Annotated[int, Meta(ge=1, le=10 * 366 * 86_400)] | None = None
    """Life of the key in seconds; null: until it is revoked."""


class KeyView(View, frozen=True, kw_only=True):
    """An API key without its secret."""

    prefix: str
    """Public part of the key, by which it is revoked and named in audits."""
    team: str
    role: Role
    """What the key may do at most."""
    label: str
    """Name for people."""
    created_by: str
    """Public part of the key that made it."""
    created_at_ms: int
    """When it was made, Unix milliseconds."""
    expires_at_ms: int | None
    """When it expires, Unix milliseconds; null: never."""
    revoked_at_ms: int | None
    """When it was revoked, Unix milliseconds; null: it was not."""


class WhoAmI(View, frozen=True, kw_only=True):
    """The caller, as its key says, and the Muster that answers."""

    team: str
    """Team of the key; empty for an operator's."""
    role: Role
    """What the key may do at most."""
    key_prefix: str
    """Public part of the key."""
    key_label: str
    """The label given to the key when it was made."""
    expires_at_ms: int | None
    """When the key expires, Unix milliseconds; null: never."""
    version: str
    """Version of Muster that answers."""


class KeyPage(View, frozen=True, kw_only=True):
    """All keys of a team."""

    items: tuple[KeyView, ...]
    next_cursor: str


class NewKeyView(View, frozen=True, kw_only=True):
    """A new key; `key` is shown this once."""

    key: str
    """The whole key, shown this once: mk_, its prefix, `_` and its secret."""
    prefix: str
    """Public part of the key."""
    team: str
    role: Role
    """What the key may do at most."""
    label: str
    """Name for people."""
    expires_at_ms: int | None
    """When it expires, Unix milliseconds; null: never."""


class KafkaUserView(View, frozen=True, kw_only=True):
    """How a team connects to Kafka; `password` is shown this once."""

    bootstrap: str
    """Addresses of the broker: host:port, comma-separated."""
    security_protocol: str
    """`security.protocol` of a Kafka client."""
    mechanism: str
    """`sasl.mechanism` of a Kafka client."""
    user: str
    """User name."""
    password: str
    """Password, shown this once."""
    submissions_topic: str
    """Where it may write."""
    results_topic: str
    """Where it may read."""
    consumer_group: str
    """The one group that it may use."""
