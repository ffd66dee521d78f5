"""What monitoring knows, all of it in one journal: workloads, devices, nodes, quota, totals.

Counts by label are kept beside it, changed by each fact, so that a scrape costs O(labels).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from services.monitoring import use_memory
from services.monitoring.records import (
    DEVICE_FIELDS,
    Debt,
    Devices,
    HeardUse,
    KeptNodes,
    LadderStep,
    NodeHealth,
    OpenTrend,
    SeenFlavor,
    SeenWorkload,
    Watch,
    shares_by_node,
)
from services.monitoring.sums import totals
from services.monitoring.sums.gangs import GangsWithoutRoom
from shared.core.health.device import DeviceState
from shared.core.health.silence import HeardNode
from shared.core.health.trends import Trend
from shared.core.model.lifecycle import State
from shared.core.model.reason import BY_CAPACITY
from shared.core.model.team_policy import IdlePolicy
from shared.events.needed_nodes import FlavorNeed
from shared.events.quotas import QuotaChanged
from shared.ports.reader import Reader
from shared.runtime.journal import Journal

WORKLOAD: Final = "w"
DEVICES: Final = "d"
NODE: Final = "n"
QUOTA: Final = "q"
DEBT: Final = "b"
POLICY: Final = "i"
WATCH: Final = "u"
AGENT: Final = "a"
SILENT: Final = "s"
STEP: Final = "h"
TREND: Final = "r"
KEPT: Final = "k"
BREAKER: Final = "o"
CLASS: Final = "l"
FLAVOR: Final = "f"
NEED: Final = "e"


class MonitoringMemory:
    """Everything in memory; `load` rebuilds all but the use of GPUs, which is told again soon."""

    def __init__(self) -> None:
        self.journal = Journal(
            "monitoring",
            {
                WORKLOAD: msgspec.json.Decoder(SeenWorkload),
                DEVICES: msgspec.json.Decoder(tuple[tuple[str | int, ...], ...]),
                NODE: msgspec.json.Decoder(NodeHealth),
                QUOTA: msgspec.json.Decoder(QuotaChanged),
                DEBT: msgspec.json.Decoder(Debt),
                **totals.DECODERS,
                POLICY: msgspec.json.Decoder(IdlePolicy),
                WATCH: msgspec.json.Decoder(Watch),
                AGENT: msgspec.json.Decoder(HeardNode),
                SILENT: msgspec.json.Decoder(int),
                STEP: msgspec.json.Decoder(LadderStep | DeviceState),
                TREND: msgspec.json.Decoder(OpenTrend),
                **use_memory.DECODERS,
                KEPT: msgspec.json.Decoder(KeptNodes),
                BREAKER: msgspec.json.Decoder(int),
                CLASS: msgspec.json.Decoder(use_memory.ClassUse),
                FLAVOR: msgspec.json.Decoder(SeenFlavor),
                NEED: msgspec.json.Decoder(tuple[FlavorNeed, ...]),
            },
        )
        self.use = use_memory.UseMemory(self.journal)
        self.held = totals.HeldTotals(self.journal)
        self.workloads: dict[str, SeenWorkload] = {}
        self.devices: dict[str, Devices] = {}
        self.nodes: dict[str, NodeHealth] = {}
        self.quotas: dict[str, QuotaChanged] = {}
        self.debts: dict[str, Debt] = {}
        self.usage: dict[str, HeardUse] = {}
        self.heard: dict[str, HeardNode] = {}
        """Nodes whose agent was heard once, in the order in which they were heard last."""
        self.steps: dict[tuple[str, int], LadderStep] = {}
        """Where devices are on the ladder of health, by (node, index); no healthy ones."""
        self.trends: dict[str, dict[tuple[int, Trend], OpenTrend]] = {}
        """Trends that are told and not over, by node, then (index of the GPU, trend)."""
        self.kept = KeptNodes()
        self.breaker_ms = 0
        """When the breaker last kept a GPU in service that a rule would have taken out."""
        self.silent: dict[str, int] = {}
        """Nodes that are told to be silent: when each was heard last."""
        self.states: Counter[tuple[str, str]] = Counter()
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.without_room = GangsWithoutRoom()
        """What waits for nodes."""
        self.policies: dict[str, IdlePolicy] = {}
        self.watches: dict[str, Watch] = {}
        self.shares: dict[str, dict[str, tuple[tuple[int, int, int], ...]]] = {}
        """By node and workload, (GPU, milli-GPU, slices as a mask) of each share there."""
        self.nodes_of: dict[str, tuple[str, ...]] = {}
        self.classes: dict[str, use_memory.ClassUse] = {}
        """What was seen of like work."""
        self.flavors: dict[str, SeenFlavor] = {}
        self.needs: tuple[FlavorNeed, ...] = ()
        """The need of nodes that was told last."""
        self.early: dict[str, None] = {}
        """Workloads of which `WorkloadQueued` was not read yet, oldest first."""

    async def load(self, reader: Reader, shard: str) -> None:
        """Fill an empty memory."""
        await self.journal.load(reader, shard)
        await self.use.load(reader)
        self.workloads = self.journal.of_kind(WORKLOAD)
        self.policies = self.journal.of_kind(POLICY)
        self.watches = self.journal.of_kind(WATCH)
        self.heard = self.journal.of_kind(AGENT)
        self.silent = self.journal.of_kind(SILENT)
        for key, state in self.journal.of_kind(STEP).items():
            node, _, gpu = key.rpartition("/")
            # Rows of before have the state alone.
            self.steps[node, int(gpu)] = (
                state if isinstance(state, LadderStep) else LadderStep(state)
            )
        for key, one in self.journal.of_kind(TREND).items():
            node, gpu, trend = key.rsplit("/", 2)
            self.trends.setdefault(node, {})[int(gpu), Trend(trend)] = one
        for workload_id, devices in self.journal.of_kind(DEVICES).items():
            # Rows of before have no mask: it is unknown, as of a time-sliced share.
            self._occupy(workload_id, tuple((*one, 0)[:DEVICE_FIELDS] for one in devices))
        self.nodes = self.journal.of_kind(NODE)
        self.classes = self.journal.of_kind(CLASS)
        self.flavors = self.journal.of_kind(FLAVOR)
        self.needs = self.journal.of_kind(NEED).get("", ())
        self.kept = self.journal.of_kind(KEPT).get("", KeptNodes())
        self.breaker_ms = self.journal.of_kind(BREAKER).get("", 0)
        self.quotas = self.journal.of_kind(QUOTA)
        self.debts = self.journal.of_kind(DEBT)
        self.held.load()
        for workload_id, one in self.workloads.items():
            self.count(one, 1)
            if not one.queued:
                self.early[workload_id] = None
            if one.held and one.flavor:
                self.held.begin(one)

    def open_trend(self, node: str, gpu: int, trend: Trend, one: OpenTrend) -> None:
        """A trend is told."""
        self.trends.setdefault(node, {})[gpu, trend] = one
        self.journal.put(TREND, f"{node}/{gpu}/{trend}", one)

    def end_trend(self, node: str, gpu: int, trend: Trend) -> OpenTrend | None:
        """It is over; None if none was told."""
        here = self.trends.get(node, {})
        one = here.pop((gpu, trend), None)
        if one is not None:
            self.journal.drop(TREND, f"{node}/{gpu}/{trend}")
            if not here:
                del self.trends[node]
        return one

    def take(self, workload_id: str, devices: Devices) -> None:
        """It holds these devices from now on."""
        self._occupy(workload_id, devices)
        self.journal.put(DEVICES, workload_id, devices)

    def _occupy(self, workload_id: str, devices: Devices) -> None:
        by_node = shares_by_node(devices)
        for node, shares in by_node.items():
            self.shares.setdefault(node, {})[workload_id] = shares
        self.nodes_of[workload_id] = tuple(by_node)
        self.devices[workload_id] = devices

    def give_back(self, workload_id: str) -> None:
        """It holds no devices any more; nothing happens if it held none."""
        if self.devices.pop(workload_id, None) is None:
            return
        self.journal.drop(DEVICES, workload_id)
        for node in self.nodes_of.pop(workload_id):
            here = self.shares[node]
            del here[workload_id]
            if not here:
                del self.shares[node]

    def unwatch(self, workload_id: str) -> None:
        """What was seen of its use is of no more interest."""
        watch = self.watches.pop(workload_id, None)
        if watch is not None and watch.kept_ms:
            self.journal.drop(WATCH, workload_id)

    def watch_anew(self, workload_id: str, watch: Watch) -> None:
        """It holds other GPUs now: what was seen is no evidence any more."""
        watch.runs = {}
        if watch.kept_ms:
            self.journal.put(WATCH, workload_id, watch)

    def count(self, one: SeenWorkload, sign: int) -> None:
        """Add a workload to the gauges, or take it out."""
        if one.counted:
            self.states[one.team, one.state.value] += sign
            if one.state is State.QUEUED:
                self.reasons[one.team, one.reason] += sign
                if one.reason in BY_CAPACITY and one.wanted is not None:
                    self.without_room.count(one.priority, one.wanted, one.waits_since_ms, sign)
