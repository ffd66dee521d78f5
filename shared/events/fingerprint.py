"""The hash that tells whether two submissions under one idempotency key are the same.

It is taken of the decoded spec, not of the bytes: spaces, the order of fields and defaults that
were written out make no difference, and every door computes it by this one function.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from shared.core.model.nouns import WorkloadSpec

_canonical: Final = msgspec.json.Encoder(order="deterministic")


def body_hash(spec: WorkloadSpec) -> str:
    """Blake2b-128 of the canonical JSON of `spec`, in hexadecimal."""
    return hashlib.blake2b(_canonical.encode(spec), digest_size=16).hexdigest()
