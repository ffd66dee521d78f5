"""Which pod has a GPU, asked of the kubelet now and then, for the labels of its metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from shared.core.telemetry.exposition import PodOfDevice
from shared.core.telemetry.readings import NodeReading
from shared.ports.device_pods import DevicePods
from shared.ports.errors import Transient

SECONDS: Final = 10.0
log = structlog.get_logger("device_owners")


class DeviceOwners:
    """What was told last; nothing while the kubelet does not answer: unknown is absent."""

    def __init__(self, source: DevicePods) -> None:
        self._source = source
        self._told: Mapping[str, PodOfDevice] = {}
        self._problem = ""

    def of(self, reading: NodeReading) -> dict[str, PodOfDevice]:
        """Pods by UUID of GPU or instance; a DRA driver names a GPU by its device file."""
        if not self._told:
            return {}
        names: dict[str, tuple[str, ...]]
        names = {gpu.uuid: (gpu.uuid, f"gpu-{gpu.minor}") for gpu in reading.gpus}
        names |= {one.uuid: (one.uuid,) for gpu in reading.gpus for one in gpu.instances}
        found = {uuid: [self._told[one] for one in known if one in self._told]
                 for uuid, known in names.items()}  # fmt: skip
        return {uuid: pods[0] for uuid, pods in found.items() if pods}

    async def watch(self) -> None:
        """Ask in turn, until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(SECONDS)

    async def refresh(self) -> None:
        """Ask once; what prevents it is logged when it is another problem."""
        try:
            self._told, problem = await self._source.read(), ""
        except (Transient, ModuleNotFoundError) as error:
            self._told, problem = {}, str(error)
        if problem and problem != self._problem:
            log.warning("device metrics tell no pods", problem=problem)
        self._problem = problem
