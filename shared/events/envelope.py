"""The envelope of everything on a wire: CloudEvents 1.0 attributes around one payload.

Ids are derived, never drawn: 48 bits of the cause's time in milliseconds, then 80 bits of a hash
of (cause id, producer, index). The same cause handled again gives the same ids, which is what
makes duplicates recognisable, and ids of one time lie together in an index (docs/adr/0007).
"""

from __future__ import annotations

import base64
import hashlib

import msgspec

from shared.events.workloads import Wire


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One fact or command with its CloudEvents attributes.

    `id` is a UUID in hexadecimal with dashes; `time_ms` is Unix time in milliseconds;
    `sequence` is the producer's dense outbox number, 0 before it has one.
    """

    id: str
    type: str
    source: str
    subject: str
    time_ms: int
    key: str
    payload: Wire
    sequence: int = 0
    causation_id: str = ""
    correlation_id: str = ""
    traceparent: str = ""


class Received(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event with the place it was read from; `topic` has no prefix ("workload.facts.v1").

    A due deadline is one too: topic "deadline", offset -1 (ADR 7).
    """

    event: Event
    topic: str
    partition: int
    offset: int
    logged_ms: int = 0
    """When the broker took it, Unix milliseconds; 0 where that is not known."""


def event_id(cause_time_ms: int, cause_id: str, producer: str, index: int) -> str:
    """Id of the `index`-th event that `producer` emits for one cause; a UUID string."""
    text = f"{cause_id}|{producer}|{index}".encode()
    digest = hashlib.blake2b(text, digest_size=10).digest()
    return uuid_text(cause_time_ms.to_bytes(6, "big") + digest)


def uuid_text(raw: bytes) -> str:
    """16 bytes in the form 8-4-4-4-12."""
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def time_of_id(identifier: str) -> int:
    """The time prefix of an event id, Unix milliseconds."""
    return int(identifier[:8] + identifier[9:13], 16)


def workload_id(team: str, idempotency_key: str) -> str:
    """Id of the workload for (team, key): "w" and 26 characters of a-z2-7.

    The same through every door and at any time; fits a Kubernetes name with room for
    attempt and rank.
    """
    text = f"{team}\x00{idempotency_key}".encode()
    digest = hashlib.blake2b(text, digest_size=16).digest()
    return "w" + base64.b32encode(digest).decode().rstrip("=").lower()
