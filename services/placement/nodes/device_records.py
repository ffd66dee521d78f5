"""What is known of devices on the ladder of health, their rows, and what searches see of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from services.placement.nodes.drains import Drains
from services.placement.state.bodies import Bodies
from services.placement.state.fleet import Fleet
from shared.core.health.device import TAKES_WORK, DeviceHealth, DeviceState
from shared.events.deadlines import deadline_message
from shared.events.envelope import Received
from shared.ports.reader import Reader
from shared.ports.store import Write

KIND: Final = "device"
"""Kind of the deadline at which a device leaves its state by itself."""
ROWS: Final = Bodies("placement.device_health", "device")
_encode: Final = msgspec.json.Encoder().encode
_decoder: Final = msgspec.json.Decoder(DeviceHealth)

Key = tuple[str, int]
"""(node, index of the GPU); -1 stands for the driver of the whole node."""


class DeviceRecords:
    """One record for each device of which something was told."""

    def __init__(self, fleet: Fleet, drains: Drains) -> None:
        self._fleet, self._drains = fleet, drains
        self._known: dict[Key, DeviceHealth] = {}
        self._of_node: dict[str, dict[int, None]] = {}
        self._touched: dict[Key, None] = {}
        self._timed: dict[Key, None] = {}
        """Devices that leave their state by themselves."""
        self._draining: dict[Key, None] = {}

    def get(self, key: Key) -> DeviceHealth | None:
        """What is known of a device; None: nothing was told."""
        return self._known.get(key)

    def __iter__(self) -> Iterator[DeviceHealth]:
        """All."""
        return iter(self._known.values())

    def of_node(self, node: str) -> list[DeviceHealth]:
        """All of a node. O(those)."""
        return [self._known[node, gpu] for gpu in self._of_node.get(node, ())]

    def draining(self) -> Iterator[DeviceHealth]:
        """Devices that wait until nothing runs on them."""
        for key in list(self._draining):
            yield self._known[key]

    def keep(self, device: DeviceHealth) -> None:
        """Remember it; searches see it as it may be used now."""
        before = self._known.get((device.node, device.gpu))
        self._know(device)
        self._touched[device.node, device.gpu] = None
        if device.state is not (before.state if before else DeviceState.HEALTHY):
            self._show(device)

    def forget(self, key: Key) -> None:
        """Nothing of it counts any more; whoever knows better shows it to searches."""
        del self._known[key]
        here = self._of_node[key[0]]
        del here[key[1]]
        if not here:
            del self._of_node[key[0]]
        self._draining.pop(key, None)
        self._timed.pop(key, None)
        self._touched[key] = None
        self._fleet.out_of_service.discard(key)

    def _know(self, device: DeviceHealth) -> None:
        key = device.node, device.gpu
        self._known[key] = device
        self._of_node.setdefault(device.node, {})[device.gpu] = None
        for those, belongs in (
            (self._timed, device.until_ms > 0),
            (self._draining, device.state is DeviceState.DRAINING),
        ):
            those.pop(key, None)
            if belongs:
                those[key] = None

    def _show(self, device: DeviceHealth) -> None:
        key, out = (device.node, device.gpu), self._fleet.out_of_service
        (out.discard if device.state in TAKES_WORK else out.add)(key)
        if device.node in self._fleet.present:
            self._drains.put(device.node)

    def due(self, now_ms: int) -> list[Received]:
        """Devices for which the time of their state is over, as messages. O(those with a time)."""
        timed = (self._known[key] for key in self._timed)
        return [
            deadline_message(KIND, f"{one.node}/{one.gpu}", one.since_ms, one.until_ms)
            for one in timed
            if one.until_ms <= now_ms
        ]

    def next_due_ms(self) -> int | None:
        """When the first leaves its state; None for never. O(those with a time)."""
        return min((self._known[key].until_ms for key in self._timed), default=None)

    async def load(self, reader: Reader) -> None:
        """After the nodes, the workloads and the drains."""
        for known in map(_decoder.decode, await ROWS.read(reader)):
            self._know(known)
            if known.state not in TAKES_WORK:
                self._show(known)

    def writes(self) -> list[Write]:
        """The rows that changed since the last call."""
        touched, self._touched = self._touched, {}
        known = self._known
        saved = {_name(key): _encode(known[key]) for key in touched if key in known}
        return ROWS.writes(saved, [_name(key) for key in touched if key not in known])


def _name(key: Key) -> str:
    node, gpu = key
    return f"{node}/{gpu}"
