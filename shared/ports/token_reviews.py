"""The port to what a cluster knows of a bearer token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOwner:
    """The user that a token stands for, as the cluster says."""

    user: str
    """Such as alice@example.com or system:serviceaccount:NAMESPACE:NAME."""
    groups: tuple[str, ...] = ()


class TokenReviews(Protocol):
    """Asks the cluster; nothing is remembered."""

    async def review(self, token: str) -> TokenOwner | None:
        """The owner; None if it is not valid, expired, or made for another audience.

        Raises:
            Transient: the cluster cannot be asked.
        """

    async def close(self) -> None:
        """Close all connections."""
