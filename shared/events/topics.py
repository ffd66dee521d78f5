"""The topic table: every topic with its key, partitions, retention, producer and consumers.

Creation, ACLs and docs/asyncapi.yaml are generated from it. A topic's name on the broker is
`<prefix>.<entity>.<facts|commands>.v1`. Cell i is partition i of every topic keyed by cell;
the partition count is fixed up front, because changing it would re-map the cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CELL_PARTITIONS: Final = 4
"""Cells that can be added without a new topic version."""
DEAD_LETTER_SUFFIX: Final = ".dlq"
MESSAGE_BYTES_MAX: Final = 5 << 20
"""Of a record with its headers. More than the codec takes of a value (4 MiB): the placement of a
gang of 4,096 pods is about 2 MiB."""
SUBMISSION_BYTES_MAX: Final = 3 << 19
"""On a team's submissions: far more than a valid one; holds a dead letter (1 MiB) too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One row of the table. `key` is what the partition follows: cell | team | node.

    `newest_only`: each record replaces those before it, as readings of a device do. So none is
    noted in the inbox, which would cost a row each, and unread ones may be gone.
    """

    name: str
    key: str
    partitions: int
    retention_hours: int
    producer: str
    consumers: tuple[str, ...]
    newest_only: bool = False

    def on_broker(self, prefix: str) -> str:
        """Full name on the broker."""
        return f"{prefix}.{self.name}"


def _topic(
    name: str, key: str, hours: int, producer: str, *consumers: str, newest_only: bool = False
) -> Topic:
    partitions = CELL_PARTITIONS if key == "cell" else 1
    return Topic(
        name=name,
        key=key,
        partitions=partitions,
        retention_hours=hours,
        producer=producer,
        consumers=consumers,
        newest_only=newest_only,
    )


SUBMISSION_COMMANDS: Final = _topic("submission.commands.v1", "cell", 96, "gateway", "admission")
NATIVE_COMMANDS: Final = _topic("native.commands.v1", "cell", 96, "native", "admission")
ORGANISATION_FACTS: Final = _topic(
    "organisation.facts.v1",
    "team",
    -1,
    "gateway",
    "admission",
    "quota",
    "placement",
    "preemption",
    "monitoring",
    "native",
    "notifications",
)
QUEUE_FACTS: Final = _topic(
    "queue.facts.v1",
    "cell",
    96,
    "admission",
    "quota",
    "placement",
    "preemption",
    "gateway",
    "monitoring",
    "native",
    "notifications",
)
QUOTA_FACTS: Final = _topic(
    "quota.facts.v1",
    "cell",
    96,
    "quota",
    "placement",
    "preemption",
    "gateway",
    "monitoring",
    "native",
    "notifications",
)
TEAM_FACTS: Final = _topic("team.facts.v1", "cell", 96, "quota", "admission")
WORKLOAD_FACTS: Final = _topic(
    "workload.facts.v1",
    "cell",
    96,
    "placement",
    "quota",
    "gateway",
    "monitoring",
    "preemption",
    "admission",
    "native",
    "cluster_watcher",
    "notifications",
)
PLAN_COMMANDS: Final = _topic("plan.commands.v1", "cell", 96, "preemption", "placement")
PREEMPTION_FACTS: Final = _topic("preemption.facts.v1", "cell", 96, "preemption", "gateway")
NODE_COMMANDS: Final = _topic("node.commands.v1", "cell", 96, "gateway", "placement")
POD_COMMANDS: Final = _topic("pod.commands.v1", "cell", 96, "placement", "binder")
POD_FACTS: Final = _topic("pod.facts.v1", "cell", 96, "binder", "placement")
NODE_FACTS: Final = _topic(
    "node.facts.v1",
    "cell",
    96,
    "node_agent",
    "admission",
    "placement",
    "preemption",
    "gateway",
    "monitoring",
)
AGENT_COMMANDS: Final = _topic("agent.commands.v1", "cell", 6, "placement", "node_agent")
USAGE_FACTS: Final = _topic(
    "usage.facts.v1", "cell", 1, "node_agent", "monitoring", newest_only=True
)
GPU_FACTS: Final = _topic(
    "gpu.facts.v1", "cell", 6, "node_agent", "cluster_watcher", newest_only=True
)
HEALTH_FACTS: Final = _topic(
    "health.facts.v1", "cell", 96, "monitoring", "placement", "gateway", "notifications"
)
AUDIT_FACTS: Final = {
    service: _topic(f"audit-{service}.facts.v1", "cell", -1, service)
    for service in ("admission", "gateway", "placement")
}
"""Seals of the audit of each service that writes one; read by `muster-ops check` alone, and kept
for as long as the audit, which is for ever."""
IDLENESS_FACTS: Final = _topic(
    "idleness.facts.v1", "cell", 96, "monitoring", "preemption", "gateway", "notifications"
)
NOTIFICATION_COMMANDS: Final = _topic(
    "notification.commands.v1", "cell", 96, "gateway", "notifications"
)
NOTIFICATION_FACTS: Final = _topic("notification.facts.v1", "cell", 96, "notifications", "gateway")

TOPICS: Final = (
    SUBMISSION_COMMANDS,
    NATIVE_COMMANDS,
    ORGANISATION_FACTS,
    QUEUE_FACTS,
    QUOTA_FACTS,
    TEAM_FACTS,
    WORKLOAD_FACTS,
    PLAN_COMMANDS,
    PREEMPTION_FACTS,
    NODE_COMMANDS,
    POD_COMMANDS,
    POD_FACTS,
    NODE_FACTS,
    AGENT_COMMANDS,
    USAGE_FACTS,
    GPU_FACTS,
    HEALTH_FACTS,
    IDLENESS_FACTS,
    *AUDIT_FACTS.values(),
    NOTIFICATION_COMMANDS,
    NOTIFICATION_FACTS,
)
WRITTEN_BESIDE: Final = {"cluster_watcher": (NODE_FACTS,)}
"""Topics that a service writes beside their producer."""
WITHOUT_ONE_COUNT: Final = frozenset({"gateway", "node_agent"})
"""Producers of which each process counts for itself, or none counts: at most they look at their
seals of the audit, and at nothing else that they wrote last (runtime/newer_log.py)."""
NEWEST_ONLY: Final = frozenset(topic.name for topic in TOPICS if topic.newest_only)
"""Names of the topics on which each record replaces those before it."""


def team_submissions(team: str) -> Topic:
    """The topic on which `team` submits: the team is the topic's, never a field's."""
    return _topic(f"submission-{team}.commands.v1", "team", 96, team, "admission")


def team_results(team: str) -> Topic:
    """The topic on which `team` reads the answers to its submissions, and what becomes of them."""
    return _topic(f"result-{team}.facts.v1", "team", 96, "admission", team)


def record_bytes_max(topic_name: str) -> int:
    """The largest record that a topic of this name takes, with its headers."""
    return MESSAGE_BYTES_MAX if team_of(topic_name) is None else SUBMISSION_BYTES_MAX


def team_of(topic_name: str) -> str | None:
    """The team of a team's submissions topic, or None for any other topic."""
    if not topic_name.startswith("submission-"):
        return None
    return topic_name.removeprefix("submission-").removesuffix(".commands.v1")
