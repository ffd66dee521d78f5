"""Expressions of dashboards, and the same as Grafana sends them to Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

VARIABLES: Final = {
    "$__rate_interval": "1m",
    "$__range_s": "300",
    "$__range": "5m",
    "$flavor": ".*",
    "$team": ".*",
    "$hostname": ".*",
}


def expressions(documents: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """(uid, title of the panel, expression) of every target."""
    for document in documents:
        for panel in document["panels"]:
            for target in panel["targets"]:
                yield document["uid"], panel["title"], target["expr"]


def plain(expression: str) -> str:
    """With all chosen, and the time that Grafana would take."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression
