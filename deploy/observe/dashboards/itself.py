"""The dashboard of Muster itself: does it keep up, and does anything go wrong."""

from __future__ import annotations

from typing import Final

from deploy.observe.dashboards.model import (
    Dashboard,
    Panel,
    Unit,
    increase,
    quantile,
    query,
    rate,
)

SERVICE: Final = "{{service}}"
ZERO: Final = "0 * sum by (service) (muster_units_total)"
"""A service that has no such events has no series: it shows 0."""
ITSELF: Final = Dashboard(
    uid="muster-itself",
    title="Muster: itself",
    description="Lag, age of what waits to be told, times, errors.",
    variables=(),
    panels=(
        Panel(
            title="Lag",
            description="Records on the broker that were not read yet.",
            unit=Unit.COUNT,
            queries=(query("sum by (service) (muster_consumer_lag)", SERVICE),),
        ),
        Panel(
            title="Age of the outbox",
            description="For how long the oldest record waits that is committed and not"
            " acknowledged.",
            unit=Unit.SECONDS,
            queries=(query("max by (service) (muster_outbox_oldest_seconds)", SERVICE),),
        ),
        Panel(
            title="Messages read",
            description="By service.",
            unit=Unit.PER_SECOND,
            queries=(query(rate("muster_messages_total", "service"), SERVICE),),
        ),
        Panel(
            title="Units of work",
            description="Committed, by service.",
            unit=Unit.PER_SECOND,
            queries=(query(rate("muster_units_total", "service"), SERVICE),),
        ),
        Panel(
            title="Time to commit",
            description="One unit of work, 99th percentile.",
            unit=Unit.SECONDS,
            queries=(query(quantile(0.99, "muster_commit_seconds", "service"), SERVICE),),
        ),
        Panel(
            title="Time to decide",
            description="One batch, 99th percentile.",
            unit=Unit.SECONDS,
            queries=(query(quantile(0.99, "muster_decide_seconds", "service"), SERVICE),),
        ),
        Panel(
            title="Dead letters",
            description="Messages that were set aside.",
            unit=Unit.COUNT,
            queries=(
                query(f"{increase('muster_dead_letters_total', 'service')} or {ZERO}", SERVICE),
            ),
        ),
        Panel(
            title="Reloads",
            description="Times that memory was rebuilt.",
            unit=Unit.COUNT,
            queries=(query(f"{increase('muster_reloads_total', 'service')} or {ZERO}", SERVICE),),
        ),
        Panel(
            title="Decisions that raised",
            description="Batches by which a decision raised an exception: a bug; the log has it.",
            unit=Unit.COUNT,
            queries=(
                query(
                    f"{increase('muster_decisions_raised_total', 'service')} or {ZERO}", SERVICE
                ),
            ),
        ),
        Panel(
            title="Clocks",
            description="Clock of each machine ahead of the database's.",
            unit=Unit.SECONDS,
            queries=(query("max by (service) (muster_clock_off_seconds)", SERVICE),),
        ),
        Panel(
            title="Requests",
            description="Answered by the gateway, by status.",
            unit=Unit.PER_SECOND,
            queries=(query(rate("muster_http_requests_total", "status"), "{{status}}"),),
        ),
        Panel(
            title="Time to answer",
            description="The gateway's, 99th percentile by route.",
            unit=Unit.SECONDS,
            queries=(query(quantile(0.99, "muster_http_request_seconds", "route"), "{{route}}"),),
        ),
        Panel(
            title="Operations of the cluster",
            description="By verb and status.",
            unit=Unit.PER_SECOND,
            queries=(
                query(
                    rate("muster_binder_operations_total", "verb, status"), "{{verb}} {{status}}"
                ),
            ),
        ),
        Panel(
            title="Notifications that wait",
            description="Notices that are not delivered yet, by destination.",
            unit=Unit.COUNT,
            queries=(
                query("sum by (destination) (muster_notifications_waiting)", "{{destination}}"),
            ),
        ),
        Panel(
            title="Destinations that fail",
            description="For how long a destination takes none; 0: it takes all.",
            unit=Unit.SECONDS,
            queries=(
                query(
                    "max by (destination) (muster_notifications_failing_seconds)",
                    "{{destination}}",
                ),
            ),
        ),
        Panel(
            title="Targets that answer",
            description="1 where Prometheus reached the process.",
            unit=Unit.COUNT,
            queries=(query('up{job=~"muster.*"}', "{{job}} {{service}} {{instance}}"),),
        ),
    ),
)
