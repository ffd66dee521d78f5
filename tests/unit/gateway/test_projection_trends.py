"""Trends of devices as rows of the read model."""

from __future__ import annotations

from typing import Any

from shared.core.health.trends import Trend
from shared.events import nodes
from tests.unit.gateway.test_projection import rows_of


def test_a_trend_is_a_row_of_its_device_and_is_over_without_a_message():
    where: dict[str, Any] = {"node": "n", "gpu": 3, "trend": Trend.HEAT, "since_ms": 7}
    found = nodes.TrendFound(value=9.5, limit=8, message="hot", **where)

    (first,) = rows_of(found)["trend"]
    (last,) = rows_of(found, nodes.TrendEnded(**where))["trend"]

    assert first | {"at_ms": 0} == where | {
        "trend": "heat", "is_open": True, "value": 9.5, "limit_value": 8, "message": "hot",
        "at_ms": 0,
    }  # fmt: skip
    assert (last["is_open"], last["message"], last["since_ms"]) == (False, "", 7)
    assert last["at_ms"] > first["at_ms"]
    other = nodes.TrendEnded(**where | {"trend": Trend.LEAK})
    assert len(rows_of(found, other)["trend"]) == 2
