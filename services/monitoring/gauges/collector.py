"""Gauges: read from memory when Prometheus asks, in the thread of the health server.

Memory changes meanwhile in the thread of the loop, so every dictionary is copied in one step
before it is read; a scrape may see one fact of a batch and not yet the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from services.monitoring import fleet
from services.monitoring.gauges import idle, ladder, needed, queues, quota, room, states
from services.monitoring.gauges.families import Labels, gauge, gpus
from services.monitoring.labels import Capped
from services.monitoring.memory import MonitoringMemory
from shared.core.health.trends import Trend
from shared.core.model.units import GPU_MILLI
from shared.ports.clock import Clock

MILLI_MS_PER_GPU_SECOND: Final = GPU_MILLI * 1_000
COST_PER_DOLLAR: Final = 1_000_000 * GPU_MILLI * 3_600_000
MICROJOULES_PER_JOULE: Final = 1_000_000
LEAKS_MAX: Final = 200
MEASURED: Final = {
    "used": "GPU-seconds of a team that computed: held times use.",
    "unused": "GPU-seconds that a team held and did not use.",
    "unmeasured": "GPU-seconds that a team held while no report of their use counted.",
}


class Gauges(Collector):
    """What monitoring knows now; `memory` gives the present one, which a reload replaces."""

    def __init__(self, memory: Callable[[], MonitoringMemory], clock: Clock, team: Capped) -> None:
        self._memory = memory
        self._clock = clock
        self._team = team

    def collect(self) -> Iterable[Metric]:  # type: ignore[explicit-override]  # new in Python 3.12
        """All gauges with their samples."""
        memory = self._memory()
        yield from self._waiting(memory)
        yield from queues.families(memory, self._clock.now_ms())
        standing = states.standing_of(memory)
        yield from states.families(standing)
        yield from room.families(standing)
        yield from ladder.families(memory, self._clock.now_ms())
        yield from needed.families(memory)
        yield from idle.families(memory, self._clock.now_ms(), self._team)
        yield from self._capacity(memory)
        yield from self._teams(memory)
        yield from quota.families(memory)

    def _waiting(self, memory: MonitoringMemory) -> Iterator[Metric]:
        states = self._by_team(memory.states)
        yield gauge("muster_workloads", "Workloads not over, by state.", "team state", states)
        reasons = self._by_team(memory.reasons)
        text = "Workloads queued, by the reason told last; empty before there is one."
        yield gauge("muster_queue_workloads", text, "team reason", reasons)

    def _capacity(self, memory: MonitoringMemory) -> Iterator[Metric]:
        total, fit = fleet.capacity(memory)
        text = "GPUs of nodes that are present."
        yield gauge("muster_gpu_capacity", text, "flavor", _one_label(total))
        text = "GPUs that can take work: healthy, in service, on a node that is ready."
        yield gauge("muster_gpu_healthy", text, "flavor", _one_label(fit))
        text = "Nodes on which nothing is started for a while, as work did not start there."
        shunned = _one_label(fleet.shunned_nodes(memory))
        yield gauge("muster_nodes_shunned", text, "flavor", shunned)
        text = "Rise of used memory on GPUs where it leaks, MiB an hour; the largest 200."
        yield gauge("muster_gpu_leak_mib_per_hour", text, "node gpu", _leaks(memory))
        text = "GPUs that are not healthy by the ladder of health, by its state."
        yield gauge("muster_gpu_health", text, "flavor state", fleet.on_ladder(memory))
        text = "Nodes whose agent is not heard while those of most others are."
        yield gauge("muster_nodes_silent", text, "", {(): len(memory.silent)})
        allocated: Counter[Labels] = Counter()
        for (_, _, flavor), milli in memory.held.charged.copy().items():
            allocated[flavor,] += milli
        text = "GPUs charged to workloads."
        yield gauge("muster_gpu_allocated", text, "flavor", gpus(allocated))

    def _teams(self, memory: MonitoringMemory) -> Iterator[Metric]:
        allocated: Counter[Labels] = Counter()
        for (team, _, flavor), milli in memory.held.charged.copy().items():
            allocated[self._team(team), flavor] += milli
        text = "GPUs charged to the workloads of a team."
        yield gauge("muster_team_gpu_allocated", text, "team flavor", gpus(allocated))
        text = "GPUs of a team that were noticed to be idle."
        yield gauge("muster_team_gpu_idle", text, "team", self._idle(memory))
        by_team, by_flavor = fleet.utilised(memory)
        text = "GPUs of a team that compute: use times what it holds of each."
        used = self._by_team({(team,): value for team, value in by_team.items()})
        yield gauge("muster_team_gpu_utilized", text, "team", used)
        text = "Mean use of the GPUs of a flavor, 0 to 1."
        yield gauge("muster_gpu_utilization_ratio", text, "flavor", _one_label(by_flavor))
        yield self._gpu_seconds(memory)
        yield self._dollars(memory)
        yield from self._settled(memory)

    def _idle(self, memory: MonitoringMemory) -> dict[Labels, float]:
        idle: Counter[Labels] = Counter()
        for workload_id, watch in memory.watches.copy().items():
            one = memory.workloads.get(workload_id)
            if watch.told is not None and one is not None:
                idle[self._team(one.team),] += one.gpu_milli
        return gpus(idle)

    def _gpu_seconds(self, memory: MonitoringMemory) -> Metric:
        now_ms = self._clock.now_ms()
        amounts = {key: total.at(now_ms) for key, total in memory.held.gpus.copy().items()}
        text = "GPU-seconds allocated to a team; exact, it goes on after a restart."
        return self._counter("muster_team_gpu_seconds", text, amounts, MILLI_MS_PER_GPU_SECOND)

    def _dollars(self, memory: MonitoringMemory) -> Metric:
        now_ms = self._clock.now_ms()
        amounts = {
            (team, flavor, purchase): total.at(now_ms)
            for (team, purchase, flavor), total in memory.held.cost.copy().items()
        }
        text = "Dollars of what a team held, by the price of when each piece of work began."
        return self._counter(
            "muster_team_cost_dollars", text, amounts, COST_PER_DOLLAR, "team flavor purchase"
        )

    def _settled(self, memory: MonitoringMemory) -> Iterator[Metric]:
        """What is settled: behind what is allocated by the time between two reports."""
        totals = memory.use.totals.copy()
        for part, text in MEASURED.items():
            amounts = {key: getattr(sums, part) for key, sums in totals.items()}
            name = f"muster_team_gpu_seconds_{part}"
            yield self._counter(name, text, amounts, MILLI_MS_PER_GPU_SECOND)
        joules = {key: sums.microjoules for key, sums in totals.items()}
        text = "Joules that boards drew, by what a team held of each; settled as its GPU-seconds."
        yield self._counter("muster_team_energy_joules", text, joules, MICROJOULES_PER_JOULE)

    def _counter(
        self,
        name: str,
        text: str,
        amounts: Mapping[Any, int],
        unit: int,
        labels: str = "team flavor",
    ) -> Metric:
        """Sums with capped teams; `unit`: so much of an amount is one."""
        family = CounterMetricFamily(name, text, labels=labels.split())
        for values, amount in self._by_team(amounts).items():
            family.add_metric(values, amount / unit)
        return family

    def _by_team(self, values: Mapping[Any, float]) -> dict[Labels, float]:
        """The same with capped teams, which are the first label."""
        summed: dict[Labels, float] = {}
        for (team, *rest), value in dict(values).items():
            key = (self._team(team), *rest)
            summed[key] = summed.get(key, 0) + value
        return summed


def _leaks(memory: MonitoringMemory) -> dict[Labels, float]:
    leaks = {
        (node, str(gpu)): one.value
        for node, here in memory.trends.copy().items()
        for (gpu, trend), one in here.copy().items()
        if trend is Trend.LEAK
    }
    return dict(sorted(leaks.items(), key=lambda one: -one[1])[:LEAKS_MAX])


def _one_label(values: Mapping[str, float]) -> dict[Labels, float]:
    return {(key,): value for key, value in values.items()}
