"""What is answered about destinations."""

from __future__ import annotations

from services.gateway.http.views import View


class DestinationView(View, frozen=True, kw_only=True):
    """How a destination stands, as the notifications service told it last."""

    name: str
    """Name of the destination, and of its document."""
    team: str
    """Team that it is told of; empty: all teams and the fleet."""
    state: str
    """new: nothing was told of it; ok; failing: it takes nothing; dead: for longer than notices
    are kept."""
    at_ms: int = 0
    waiting: int = 0
    """Notices that were not delivered yet."""
    dropped: int = 0
    """Notices that were given up."""
    delivered_at_ms: int = 0
    """When it took something last, Unix milliseconds; 0: never."""
    failing_since_ms: int = 0
    """Since when it takes nothing, Unix milliseconds; 0: it does."""
    problem: str = ""
    """What went wrong last; empty: nothing."""


class DestinationPage(View, frozen=True, kw_only=True):
    """All that the caller may see."""

    items: tuple[DestinationView, ...]
    next_cursor: str = ""


class DestinationTried(View, frozen=True, kw_only=True):
    """The command is durable; the notifications service sends the test at once."""

    name: str
    """Name of the destination."""
    at_ms: int
