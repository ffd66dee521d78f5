"""Reads of a service's own tables, outside of any unit of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Reader(Protocol):
    """One query at a time on a pooled connection; time-outs are the adapter's."""

    async def fetch(self, sql: str, *arguments: Any) -> Sequence[Mapping[str, Any]]:  # noqa: ANN401  # any SQL value
        """Rows of a query with placeholders `$1`, `$2`, ...

        Raises:
            Transient: the database cannot be reached now.
        """
        ...
