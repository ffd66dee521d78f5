"""Which container a device was given to, as its node knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from shared.core.telemetry.exposition import PodOfDevice


class DevicePods(Protocol):
    """Asks the node; what it does not know is absent."""

    async def read(self) -> Mapping[str, PodOfDevice]:
        """Containers by name of their device: a UUID, or `gpu-N` where a DRA driver names it.

        Raises:
            Transient: the node does not answer now.
        """
        ...

    async def close(self) -> None:
        """Release the connection."""
        ...
