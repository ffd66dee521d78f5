"""Metrics of the notifications service; the loop's own are in `runtime.telemetry`."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge

OUTCOMES: Final = ("delivered", "failed", "given_up")
NOTIFICATIONS: Final = Counter(
    "muster_notifications_total",
    "Notices delivered or given up, and attempts that failed, by destination.",
    ["destination", "outcome"],
)
WAITING: Final = Gauge(
    "muster_notifications_waiting", "Notices that are not delivered yet.", ["destination"]
)
OLDEST_SECONDS: Final = Gauge(
    "muster_notifications_oldest_seconds", "Age of the oldest of them.", ["destination"]
)
FAILING_SECONDS: Final = Gauge(
    "muster_notifications_failing_seconds",
    "Since the first attempt that failed without one that succeeded after it; 0: it takes all.",
    ["destination"],
)


def begin(name: str) -> None:
    """All children of a destination, so that a first failure is an increase."""
    for outcome in OUTCOMES:
        NOTIFICATIONS.labels(name, outcome)
    for gauge in (WAITING, OLDEST_SECONDS, FAILING_SECONDS):
        gauge.labels(name).set(0)


def end(name: str) -> None:
    """A destination that is deleted has no metrics."""
    for outcome in OUTCOMES:
        NOTIFICATIONS.remove(name, outcome)
    for gauge in (WAITING, OLDEST_SECONDS, FAILING_SECONDS):
        gauge.remove(name)
