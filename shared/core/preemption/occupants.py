"""Who holds what, and what it would lose if it were evicted now: what evictions are planned on.

Lost is the work since the last checkpoint, times the GPUs, and the time to come back to it.
What all occupants would lose changes with the clock, so it is worked out for each decision, but
for all of them at once: `Occupants` keeps their figures in columns (arrays), one row for each
occupant and one for each node on which it has pods, changed as occupants come and go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.core.cluster import Cluster
from shared.core.model import PodPlacement, WorkloadSpec, least_count
from shared.core.tenants import Tenant, Tenants
from shared.core.units import GPU_MILLI

Column = NDArray[np.int64]
ROWS_AT_FIRST: Final = 256
CPU_MILLI_PER_GPU: Final = 16_000
"""Work without a GPU weighs as much as one GPU for so much CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant(Tenant):
    """A workload with devices, as far as evicting it is concerned.

    `protected`: its priority class is never preempted. `evictable`: it runs, its spec lets it be
    preempted, and nobody evicts it already.
    """

    priority: int
    attempt: int
    version: int
    started_at_ms: int
    protected: bool = False
    evictable: bool = True
    restart_ms: int = 0
    """From the start of its next attempt until it is where its last checkpoint was."""

    @property
    def queue(self) -> str:
        """Where its quota is charged."""
        return self.workload.queue

    @property
    def team(self) -> str:
        """Whose it is."""
        return self.workload.team

    @property
    def spare_ranks(self) -> tuple[int, ...]:
        """Ranks that an elastic gang can give up, in the order in which it would."""
        ranks: list[int] = []
        for pod_set in self.workload.spec.pod_sets:
            if pod_set.slices or pod_set.min_count is None:
                continue
            mine = [pod.rank for pod in self.placement.pods if pod.pod_set == pod_set.name]
            ranks += sorted(mine)[least_count(pod_set) :]
        return tuple(reversed(ranks))

    def last_checkpoint_ms(self, now_ms: int) -> int:
        """When it last saved its work, as it promised to; its start if it does not."""
        interval_ms = checkpoint_interval_ms(self.workload.spec)
        if not interval_ms:
            return self.started_at_ms
        ran_ms = max(now_ms - self.started_at_ms, 0)
        return self.started_at_ms + ran_ms // interval_ms * interval_ms

    def lost_gpu_ms(self, now_ms: int, gpu_milli: int | None = None) -> int:
        """GPU-milliseconds that go if `gpu_milli` of it (all by default) stop now."""
        held = self.placement.charge.gpu_milli if gpu_milli is None else gpu_milli
        since_ms = max(now_ms - self.last_checkpoint_ms(now_ms), 0)
        return held * (since_ms + self.restart_ms) // GPU_MILLI


def checkpoint_interval_ms(spec: WorkloadSpec) -> int:
    """How often it saves its work; 0 for never."""
    return (spec.checkpoint_interval_seconds or 0) * 1000


def gpu_milli_of(pods: Iterable[PodPlacement]) -> int:
    """What `pods` hold of GPUs."""
    return sum(share.milli for pod in pods for share in pod.shares)


def _least_gpu_milli(occupant: Occupant) -> int:
    spare = set(occupant.spare_ranks)
    pods = [pod for pod in occupant.placement.pods if pod.rank in spare]
    whole = occupant.placement.charge.gpu_milli
    return min((gpu_milli_of((pod,)) for pod in pods), default=whole)


WORKLOAD_COLUMNS: Final = (
    "flavor",
    "queue",
    "team",
    "priority",
    "start",
    "interval",
    "restart",
    "gpu",
    "cpu",
    "memory",
    "weight",  # what cost is counted by
    "least",  # milli-GPU of the smallest piece that can go
    "open",  # 1 for those that may go, 2 for the protected, 3 for the others, 0 for no row
)


class Rows:
    """Columns of one length with a list of free rows."""

    def __init__(self, *names: str) -> None:
        self.columns: dict[str, Column] = {
            name: np.zeros(ROWS_AT_FIRST, dtype=np.int64) for name in names
        }
        self._free: list[int] = []
        self.used = 0
        """Rows in use or free again; the rest was never used."""

    def take(self, **values: int) -> int:
        """A row with these values; columns not named are 0."""
        if self._free:
            row = self._free.pop()
        else:
            row = self.used
            self.used += 1
            if row >= len(next(iter(self.columns.values()))):
                for name, column in self.columns.items():
                    self.columns[name] = np.concatenate([column, np.zeros_like(column)])
        for name, column in self.columns.items():
            column[row] = values.get(name, 0)
        return row

    def drop(self, row: int) -> None:
        """Nothing is in `row` any more: all columns are 0."""
        for column in self.columns.values():
            column[row] = 0
        self._free.append(row)

    def __getitem__(self, name: str) -> Column:
        """A column, as long as rows were ever used."""
        return self.columns[name][: self.used]


class Codes:
    """Names as small numbers; 0 is nobody's."""

    def __init__(self) -> None:
        self.names: list[str] = [""]
        self._codes: dict[str, int] = {}

    def of(self, name: str) -> int:
        """The number of `name`, a new one if it has none."""
        code = self._codes.get(name)
        if code is None:
            code = self._codes[name] = len(self.names)
            self.names.append(name)
        return code

    def find(self, name: str) -> int:
        """The number of `name`; -1 if nobody has it."""
        return self._codes.get(name, -1)


class Occupants:
    """All occupants of a cluster, kept as they come and go. O(pods) for each."""

    def __init__(self, occupants: Iterable[Occupant] = ()) -> None:
        self.tenants: Tenants[Occupant] = Tenants()
        self.workloads = Rows(*WORKLOAD_COLUMNS)
        self.holdings = Rows("workload", "node", "gpu", "gpus", "weight")
        self.ids: dict[int, str] = {}
        """By row of `workloads`."""
        self.row_of: dict[str, int] = {}
        self.flavors, self.queues, self.teams, self.nodes = Codes(), Codes(), Codes(), Codes()
        self._held: dict[str, list[int]] = {}
        self._node_ranks = np.zeros(1, dtype=np.int64)
        for each in occupants:
            self.put(each)

    def put(self, occupant: Occupant) -> None:
        """Add one, or replace what is known of it."""
        self.remove(occupant.id)
        self.tenants.put(occupant)
        charge = occupant.placement.charge
        row = self.workloads.take(
            flavor=self.flavors.of(occupant.placement.flavor),
            queue=self.queues.of(occupant.queue),
            team=self.teams.of(occupant.team),
            priority=occupant.priority,
            start=occupant.started_at_ms,
            interval=checkpoint_interval_ms(occupant.workload.spec),
            restart=occupant.restart_ms,
            gpu=charge.gpu_milli,
            cpu=charge.cpu_milli,
            memory=charge.memory_mib,
            least=_least_gpu_milli(occupant),
            weight=self.weight_milli(occupant, occupant.placement.pods),
            open=2 if occupant.protected else 1 if occupant.evictable else 3,
        )
        self.ids[row] = occupant.id
        self.row_of[occupant.id] = row
        held: dict[str, list[PodPlacement]] = {}
        for pod in occupant.placement.pods:
            held.setdefault(pod.node, []).append(pod)
        self._held[occupant.id] = [
            self.holdings.take(
                workload=row,
                node=self.nodes.of(node),
                gpu=gpu_milli_of(pods),
                gpus=sum(len(pod.shares) for pod in pods),
                weight=self.weight_milli(occupant, pods),
            )
            for node, pods in held.items()
        ]

    def weight_milli(self, occupant: Occupant, pods: Iterable[PodPlacement]) -> int:
        """What the cost of stopping `pods` is counted by: their GPUs, or else their CPU."""
        if occupant.placement.charge.gpu_milli:
            return gpu_milli_of(pods)
        cpu_milli = sum(self.tenants.size(occupant, pod)[0] for pod in pods)
        return max(cpu_milli * GPU_MILLI // CPU_MILLI_PER_GPU, 1)

    def remove(self, workload_id: str) -> None:
        """Forget one that holds nothing any more; an unknown one is ignored."""
        if self.tenants.remove(workload_id) is None:
            return
        row = self.row_of.pop(workload_id)
        del self.ids[row]
        self.workloads.drop(row)
        for holding in self._held.pop(workload_id):
            self.holdings.drop(holding)

    def of(self, workload_id: str) -> Occupant | None:
        """What is known of a workload."""
        return self.tenants.running.get(workload_id)

    def node_ranks(self, cluster: Cluster) -> Column:
        """By number of the node: the rank by which `cluster` breaks ties."""
        known = len(self._node_ranks)
        if known < len(self.nodes.names):
            more = [cluster.rank_of(name) for name in self.nodes.names[known:]]
            self._node_ranks = np.append(self._node_ranks, np.array(more, dtype=np.int64))
        return self._node_ranks

    def lost_ms(self, now_ms: int) -> Column:
        """By row of `workloads`: milliseconds of each of its GPUs that go if it stops now."""
        rows = self.workloads
        ran = np.maximum(now_ms - rows["start"], 0)
        interval = rows["interval"]
        since = np.where(interval > 0, ran % np.maximum(interval, 1), ran)
        return since + rows["restart"]
