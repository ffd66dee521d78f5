"""Kinds of documents, as files name them and as they are typed on a command line."""

from __future__ import annotations

from typing import Final

from muster.cli.failures import UsageError

COLLECTIONS: Final = {
    "Flavor": "flavors",
    "PriorityClass": "priority-classes",
    "Cohort": "cohorts",
    "Team": "teams",
    "Queue": "queues",
    "Notification": "notifications",
}
"""Collections of the API by kind, in the order in which documents need each other."""
API_KEY: Final = "ApiKey"
ORDER: Final = (*COLLECTIONS, API_KEY)
"""Documents are applied in this order, whatever their order in the file."""


def kind_of(text: str) -> str:
    """The kind that is meant by "Team", "teams", "priority-class", "apikeys" and the like.

    Raises:
        UsageError: there is no such kind.
    """
    plain = text.lower().replace("-", "").replace("_", "")
    for kind in ORDER:
        plural = COLLECTIONS.get(kind, "apikeys").replace("-", "")
        if plain in {kind.lower(), plural}:
            return kind
    raise UsageError(f"KIND: must be one of {', '.join(ORDER)} (given: {text!r})")
