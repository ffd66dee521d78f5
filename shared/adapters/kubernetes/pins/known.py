"""All objects of a kind that are known, each with the version as of which it is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from shared.adapters.kubernetes.pins.claims import Claim
from shared.adapters.kubernetes.pins.devices import DeviceId, SliceNames
from shared.core.kubernetes.devices import minor_of

Item = TypeVar("Item")
Exchanged = Callable[[str, Item | None, Item | None], None]
"""Is told which of a key was put in the place of which."""
Gpu = tuple[str, int | None]
"""Its pool and minor number."""


class KnownObjects(Generic[Item]):
    """All objects of a kind by key; a sink of a follower."""

    def __init__(self, exchanged: Exchanged[Item] | None = None) -> None:
        self.items: dict[str, Item] = {}
        self.complete = False
        self.problem = ""
        self._versions: dict[str, int] = {}
        self._exchanged = exchanged

    def listed(self, items: Mapping[str, Item], version: int) -> None:
        """Take a whole list; what was written since it stays."""
        for key in list(self.items):
            if key not in items:
                self.changed(key, None, version)
        for key, item in items.items():
            self.changed(key, item, version)
        self.complete, self.problem = True, ""

    def changed(self, key: str, item: Item | None, version: int) -> None:
        """Take one change, unless something newer is known of it."""
        if version < self._versions.get(key, 0):
            return
        before = self.items.pop(key, None)
        self._versions.pop(key, None)
        if item is not None:
            self.items[key] = item
            self._versions[key] = version
        if self._exchanged is not None:
            self._exchanged(key, before, item)

    def forget(self, key: str) -> None:
        """The server says that there is none."""
        self.changed(key, None, self._versions.get(key, 0))

    def interrupted(self, problem: str) -> None:
        """Nothing is heard of the kind until it is listed again."""
        self.problem = problem


class Slices:
    """Slices by node."""

    def __init__(self) -> None:
        self.known = KnownObjects[SliceNames](self._exchanged)
        self.of_node: dict[str, dict[str, SliceNames]] = {}

    def _exchanged(self, key: str, before: SliceNames | None, after: SliceNames | None) -> None:
        if before is not None:
            del self.of_node[before.node][key]
        if after is not None:
            self.of_node.setdefault(after.node, {})[key] = after


class Claims:
    """Claims by the GPUs of which they hold something."""

    def __init__(self) -> None:
        self.known = KnownObjects[Claim](self._exchanged)
        self._holders: dict[Gpu, dict[str, Claim]] = {}

    def holders(self, device: DeviceId) -> Iterator[tuple[str, Claim]]:
        """Keys of the claims that hold a part of the GPU of a device."""
        return iter(self._holders.get(_gpu_of(device), {}).items())

    def _exchanged(self, key: str, before: Claim | None, after: Claim | None) -> None:
        for gpu in _gpus_of(before):
            holders = self._holders[gpu]
            del holders[key]
            if not holders:
                del self._holders[gpu]
        for gpu in _gpus_of(after):
            if after is not None:
                self._holders.setdefault(gpu, {})[key] = after


def _gpus_of(claim: Claim | None) -> Iterable[Gpu]:
    return {_gpu_of(device) for device in claim.devices} if claim is not None else ()


def _gpu_of(device: DeviceId) -> Gpu:
    return device.pool, minor_of(device.name)
