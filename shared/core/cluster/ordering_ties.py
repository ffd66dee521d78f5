"""Equal candidates are told apart by a fixed seeded rank of the node's name, and nothing else.

A name order would favour one end of the fleet, a fresh draw for each decision could not be
replayed; one arbitrary but fixed order is both fair and repeatable (ADR 10).
"""

from __future__ import annotations

from hashlib import blake2b


def node_rank(seed: int, name: str) -> int:
    """A 63-bit number for `name`, the same for ever under one `seed`; smaller goes first."""
    digest = blake2b(f"{seed}|{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
