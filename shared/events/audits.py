"""Facts about the audit itself: its chain of digests, told outside the database (ADR 100)."""

from __future__ import annotations

from shared.events.workloads import Wire


class AuditSealed(Wire, frozen=True, kw_only=True):
    """How far the audit of a shard goes, and the digest there.

    The digest of a row follows from all rows before it, so a row that is changed, taken out or put
    in below `sequence`, or gone at its end, contradicts this.
    """

    shard: str
    """Whose audit it is, beside the service: its cell, or one of the gateway's shards."""
    sequence: int
    """Number of the newest audit row."""
    digest: str
    """Its digest, hexadecimal."""
    count: int
    """Audit rows that were written since the seal before; all that there are where it is not
    known."""
