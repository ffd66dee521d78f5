"""What a service tells while its log has lost records: its log, /readyz and a metric (ADR 83)."""

from __future__ import annotations

from collections.abc import Collection

import structlog

from shared.ports.errors import DatabaseOlder, LogLost
from shared.runtime.telemetry import LOG_LOST


class LostLogs:
    """By (topic, partition), from the first time that it is found until it is over."""

    def __init__(self, service: str, log: structlog.stdlib.BoundLogger) -> None:
        self._service = service
        self._log = log
        self._sentences: dict[tuple[str, int], str] = {}

    @property
    def sentences(self) -> Collection[str]:
        """What is lost now, and what can be done; for people."""
        return self._sentences.values()

    def tell(self, error: LogLost) -> None:
        """Log what is new; the metric tells the topics of all of it."""
        for place, sentence in error.sentences.items():
            if place not in self._sentences:
                event = "database older" if isinstance(error, DatabaseOlder) else "log lost"
                self._log.error(event, topic=place[0], partition=place[1], message=sentence)
        self._set(0)
        self._sentences = dict(error.sentences)
        self._set(1)

    def over(self) -> None:
        """All that is unread is there."""
        if self._sentences:
            self._log.info("log is whole again")
        self._set(0)
        self._sentences = {}

    def _set(self, lost: int) -> None:
        for topic, _ in self._sentences:
            LOG_LOST.labels(self._service, topic).set(lost)
