"""I20: at rest, work that fits is placed, and what waits is told why.

Only what surely fits is judged: whole GPUs without further wishes, room on nodes that nothing is
kept on, quota left at every level without a part that is guaranteed to others. In the order of
priority and age each takes its room; behind the first of a quota tree that does not surely fit
nothing of that tree is judged, as room may be kept for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from operations.check.database import read_queries
from operations.check.limits import UNITS
from operations.check.model import Findings, Result, Row
from operations.check.pods import settled

GPU_MILLI: Final = 1_000
WITHOUT_ROOM: Final = frozenset(
    {"", "WaitingForQuota", "NoMatchingFlavor", "InsufficientCapacity", "GangIncomplete"}
)
"""Reasons that what fits disproves; others are rules, such as a budget that is spent."""
QUERIES: Final = {
    "waiting": """
        SELECT w.id, w.queue, w.body, g.id IS NOT NULL AS told, coalesce(g.reason, '') AS reason,
               EXISTS (SELECT FROM placement.avoided a WHERE a.workload_id = w.id)
               OR EXISTS (SELECT FROM placement.team_budget b WHERE b.team = w.team) AS special
        FROM placement.workload w LEFT JOIN gateway.workload g ON g.id = w.id
        WHERE w.state = 'queued' ORDER BY w.priority DESC, w.submitted_at_ms, w.id""",
    "nodes": """
        SELECT n.name, n.body, n.cpu_milli - n.cpu_milli_used AS cpu_milli,
               n.memory_mib - n.memory_mib_used AS memory_mib,
               (SELECT count(*) FROM placement.gpu g
                WHERE g.node = n.name AND g.healthy AND g.milli_used = 0 AND g.shares = 0) AS gpus
        FROM placement.node n WHERE n.present AND n.ready AND NOT EXISTS (
            SELECT FROM (SELECT node AS body FROM placement.cordon
                         UNION ALL SELECT node FROM placement.suspicion
                         UNION ALL SELECT body FROM placement.device_health
                         UNION ALL SELECT body FROM placement.promise
                         UNION ALL SELECT body FROM placement.reservation) kept
            WHERE kept.body = n.name OR strpos(kept.body, '"' || n.name || '"') > 0)
        ORDER BY n.name""",
    "usage": """
        SELECT quota_node, flavor, gpu_milli_limit - gpu_milli AS gpu_milli,
               cpu_milli_limit - cpu_milli AS cpu_milli,
               memory_mib_limit - memory_mib AS memory_mib FROM placement.usage""",
    "parents": "SELECT name, parent FROM placement.quota_node",
}


async def check_waiting(url: str, *, settle_seconds: float | None = None) -> Result:
    """The verdict on I20 of a system to which nothing is submitted any more.

    Raises:
        CannotCheck: the database cannot be read.
    """

    async def compared() -> Findings:
        return waits_in_vain(await read_queries(url, QUERIES))

    findings = await settled(compared, settle_seconds)
    return findings.result("I20", "what fits is placed, and what waits is told why")


def waits_in_vain(rows: Mapping[str, Sequence[Row]]) -> Findings:
    """Every workload that fits, or of which nothing is told."""
    findings = Findings(checked=len(rows["waiting"]))
    room = _Room.of(rows)
    stopped: set[str] = set()
    for row in rows["waiting"]:
        root = room.path(row["queue"])[-1]
        flavor = None if root in stopped else _fits(room, row)
        if flavor is not None:
            text = f"fits into what is free of flavor {flavor} and its quota, and is not placed"
            findings.add(row["id"], f"{text}; it is told: {row['reason'] or 'nothing'}")
            continue
        stopped.add(root)
        if row["told"] and not row["reason"]:
            findings.add(row["id"], "waits, and nothing says why")
    return findings


@dataclass(frozen=True, slots=True)
class _Pod:
    """What one pod takes: GPUs, CPU and memory."""

    gpus: int
    cpu_milli: int
    memory_mib: int


@dataclass(slots=True)
class _Room:
    """What is free, by node and by level of the quota tree."""

    nodes: dict[str, list[list[int]]] = field(default_factory=dict)
    """By flavor: [GPUs, milli-CPU, MiB] of each node."""
    quota: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Mapping[str, Sequence[Row]]) -> _Room:
        room = cls(parents={row["name"]: row["parent"] for row in rows["parents"]})
        for row in rows["nodes"]:
            node = json.loads(row["body"])
            if _is_plain_node(node):
                free = [row["gpus"], row["cpu_milli"], row["memory_mib"]]
                room.nodes.setdefault(node["flavor"], []).append(free)
        for row in rows["usage"]:
            room.quota[row["quota_node"], row["flavor"]] = {unit: row[unit] for unit in UNITS}
        return room

    def path(self, queue: str) -> list[str]:
        """The queue and its cohorts, up to the root."""
        path = [queue]
        while (parent := self.parents.get(path[-1], "")) and parent not in path:
            path.append(parent)
        return path

    def take(self, queue: str, flavor: str, pods: Sequence[_Pod]) -> bool:
        """Take the room of these pods, if all of them fit; nothing else changes."""
        charge = {
            "gpu_milli": GPU_MILLI * sum(pod.gpus for pod in pods),
            "cpu_milli": sum(pod.cpu_milli for pod in pods),
            "memory_mib": sum(pod.memory_mib for pod in pods),
        }
        levels = [self.quota.get((name, flavor)) for name in self.path(queue)]
        if any(level is None or level[unit] < charge[unit] for level in levels for unit in UNITS):
            return False
        left = _packed(self.nodes.get(flavor, []), pods)
        if left is None:
            return False
        self.nodes[flavor] = left
        for level in filter(None, levels):
            for unit in UNITS:
                level[unit] -= charge[unit]
        return True


def _packed(nodes: Sequence[Sequence[int]], pods: Sequence[_Pod]) -> list[list[int]] | None:
    """What is left when each pod lies on the first node that takes it; None: one has no node."""
    left = [list(node) for node in nodes]
    for pod in pods:
        wanted = (pod.gpus, pod.cpu_milli, pod.memory_mib)
        home = next((node for node in left if all(map(int.__ge__, node, wanted))), None)
        if home is None:
            return None
        home[:] = [free - taken for free, taken in zip(home, wanted, strict=True)]
    return left


def _is_plain_node(node: Mapping[str, Any]) -> bool:
    """Whether any work may go there, and its GPUs are given whole."""
    special = node.get("cordoned") or node.get("taints") or node.get("pool")
    return not special and not any(gpu.get("mig") for gpu in node.get("gpus", ()))


def _fits(room: _Room, row: Row) -> str | None:
    """The flavor in which it surely fits and takes room; None: that cannot be said."""
    spec = json.loads(row["body"] or "{}").get("spec", {})
    if row["special"] or row["reason"] not in WITHOUT_ROOM or not _is_plain(spec):
        return None
    pods = list(_pods_of(spec))
    return next((one for one in sorted(room.nodes) if room.take(row["queue"], one, pods)), None)


def _is_plain(spec: Mapping[str, Any]) -> bool:
    """Whether it asks for whole GPUs, wherever they are."""
    topology = spec.get("topology") or {}
    wishes = spec.get("gpu_choice") or topology.get("required") or topology.get("numa_aligned")
    sets = spec.get("pod_sets") or ()
    whole = all(one.get("gpu", {}).keys() == {"count"} and not one.get("slices") for one in sets)
    amounts = all(one.get("cpu_milli") and one.get("memory_mib") for one in sets)
    return bool(sets) and whole and amounts and not wishes and spec.get("spread") != "required"


def _pods_of(spec: Mapping[str, Any]) -> Iterator[_Pod]:
    for one in spec["pod_sets"]:
        pod = _Pod(one["gpu"]["count"], one["cpu_milli"], one["memory_mib"])
        yield from (pod for _ in range(one.get("count", 1)))
