"""Logs (one JSON line for each event, control characters escaped) and metrics of the loop."""

from __future__ import annotations

import logging
import sys

import structlog
from prometheus_client import Counter, Gauge, Histogram

MESSAGES = Counter("muster_messages_total", "Messages consumed.", ["service", "topic"])
DUPLICATES = Counter(
    "muster_duplicates_total", "Duplicates dropped before a decision.", ["service"]
)
DEAD_LETTERS = Counter(
    "muster_dead_letters_total",
    "Messages sent to dead letters, without those of teams' own topics.",
    ["service"],
)
REFUSED_SUBMISSIONS = Counter(
    "muster_refused_submissions_total",
    "Records of teams' own topics that cannot be read: kept as dead letters, and answered.",
    ["service"],
)
UNREADABLE_SAMPLES = Counter(
    "muster_unreadable_samples_total",
    "Records of topics on which each replaces those before, passed over as they cannot be read.",
    ["service"],
)
RAISED = Counter(
    "muster_decisions_raised_total",
    "Batches by which a decision raised an exception: a bug; the log has it.",
    ["service"],
)
UNITS = Counter("muster_units_total", "Units of work committed.", ["service"])
RELOADS = Counter("muster_reloads_total", "Times that memory was rebuilt.", ["service", "cause"])
DECIDE_SECONDS = Histogram(
    "muster_decide_seconds",
    "Time to decide one batch.",
    ["service"],
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1),
)
COMMIT_SECONDS = Histogram(
    "muster_commit_seconds",
    "Time to commit one unit of work.",
    ["service"],
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5),
)
OUTBOX_WAITING = Gauge("muster_outbox_waiting", "Committed, not yet acknowledged.", ["service"])
OUTBOX_OLDEST = Gauge(
    "muster_outbox_oldest_seconds",
    "For how long the oldest record waits that is committed and not yet acknowledged.",
    ["service"],
)
CLOCK_OFF = Gauge(
    "muster_clock_off_seconds", "Clock of the machine ahead of the database's.", ["service"]
)
LOG_LOST = Gauge(
    "muster_log_lost",
    "1 while records of the topic are gone that were not read, or it has some that the database"
    " knows nothing of: nothing is decided, /readyz says what to do.",
    ["service", "topic"],
)
LAG = Gauge("muster_consumer_lag", "Records on the broker not read yet.", ["service"])


def logger(service: str, slot: str, level: str = "info") -> structlog.stdlib.BoundLogger:
    """A logger that writes JSON lines to standard output; quiets the Kafka client."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(),
    )
    bound: structlog.stdlib.BoundLogger = structlog.get_logger(service=service, slot=slot)
    return bound
