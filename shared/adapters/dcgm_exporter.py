"""`ports.gpu_source.GpuSource` on a dcgm-exporter that runs already: the same facts, no NVML.

Each sample line is parsed by itself: a line that is cut, not UTF-8 or of a value that is no number
is absent and counted, and its neighbours count. Without `# TYPE` lines the parser leaves the names
as the exporter wrote them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from shared.core.model.nouns import Gpu
from shared.core.telemetry.metrics import DEVICE_METRICS, PREFIX
from shared.core.telemetry.readings import (
    DeviceInventory,
    GpuReading,
    InstanceReading,
    NodeReading,
)
from shared.ports.clock import Clock
from shared.ports.gpu_source import SourceSilentError

BYTES_MAX: Final = 4 << 20
SECONDS_MAX: Final = 10.0
TOTAL_MIB: Final = PREFIX + "DEV_FB_TOTAL"
_MEMORY: Final = tuple(PREFIX + f"DEV_FB_{part}" for part in ("USED", "FREE", "RESERVED"))


class Exported(NamedTuple):
    """What a text of dcgm-exporter tells."""

    gpus: tuple[GpuReading, ...]
    driver: str
    refused: int
    """Lines that tell nothing."""


class _Sample(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


class DcgmExporterSource:
    """Reads one dcgm-exporter over HTTP."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url = url
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self.refused = 0
        """Lines that told nothing, since it was started."""

    async def inventory(self) -> DeviceInventory:
        """The devices that the exporter names.

        Raises:
            SourceSilentError: it does not answer, or names none.
        """
        found = await self._fetch()
        model = found.gpus[0].model if found.gpus else ""
        return DeviceInventory(
            product=model.replace(" ", "-"), driver=found.driver, gpus=tuple(map(_gpu, found.gpus))
        )

    async def read(self, *, full: bool = True) -> NodeReading:
        """The values of all GPUs that the exporter names; always in full.

        Raises:
            SourceSilentError: it does not answer, or names none.
        """
        del full
        at_ms = self._clock.now_ms()
        found = await self._fetch()
        return NodeReading(at_ms=at_ms, driver=found.driver, gpus=found.gpus)

    async def set_mig(self, uuid: str, *, mig: bool) -> str:
        """Never: an exporter only tells."""
        del uuid, mig
        return "a dcgm-exporter cannot change a GPU: use MUSTER_GPU_PROBE=nvml"

    async def close(self) -> None:
        """Release the connection."""
        if self._session is not None:
            await self._session.close()

    async def _fetch(self) -> Exported:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(SECONDS_MAX))
        try:
            async with self._session.get(self._url) as answer:
                answer.raise_for_status()
                body = await answer.content.read(BYTES_MAX + 1)
                while len(body) <= BYTES_MAX and (more := await answer.content.read(BYTES_MAX)):
                    body += more
        except (aiohttp.ClientError, TimeoutError) as error:
            problem = f"{self._url} does not answer: {str(error) or type(error).__name__}"
            raise SourceSilentError(problem) from error
        if len(body) > BYTES_MAX:
            raise SourceSilentError(f"{self._url} answers more than {BYTES_MAX} bytes")
        found = parse(body)
        self.refused += found.refused
        if not found.gpus:
            raise SourceSilentError(f"{self._url} names no GPU")
        return found


def parse(body: bytes) -> Exported:
    """The GPUs of a text in the format of Prometheus. O(lines)."""
    *whole, cut = body.split(b"\n")  # what follows the last end of a line may lack digits
    lines = [line for line in whole if line.strip() and not line.startswith(b"#")]
    samples = [one for line in lines for one in _samples(line)]
    gpus: dict[int, list[_Sample]] = {}
    for one in samples:
        gpus.setdefault(int(one.labels["gpu"]), []).append(one)
    driver = next((one.labels.get("DCGM_FI_DRIVER_VERSION", "") for one in samples), "")
    read = tuple(_reading(index, gpus[index]) for index in sorted(gpus))
    return Exported(read, driver, len(lines) - len(samples) + bool(cut))


def _samples(line: bytes) -> Iterator[_Sample]:
    """One, or none for a line that tells nothing."""
    try:
        (family,) = text_string_to_metric_families(line.decode() + "\n")
        (sample,) = family.samples
    except (ValueError, UnicodeDecodeError):
        return
    labels, value = sample.labels, float(sample.value)
    known = sample.name in DEVICE_METRICS and labels.get("gpu", "").isdecimal()
    if known and labels.get("UUID") and math.isfinite(value):
        yield _Sample(sample.name, labels, value)


def _reading(index: int, samples: Iterable[_Sample]) -> GpuReading:
    values: dict[str, float] = {}
    instances: dict[int, tuple[str, dict[str, float]]] = {}
    labels: dict[str, str] = {}
    for one in samples:
        labels |= one.labels
        number = one.labels.get("GPU_I_ID", "")
        if number.isdecimal():
            profile = one.labels.get("GPU_I_PROFILE", "")
            instances.setdefault(int(number), (profile, {}))[1][one.name] = one.value
        else:
            values[one.name] = one.value
    minor = labels.get("device", "").removeprefix("nvidia")
    return GpuReading(
        index=index,
        uuid=labels["UUID"],
        pci=labels.get("pci_bus_id", ""),
        model=labels.get("modelName", ""),
        minor=int(minor) if minor.isdecimal() else index,
        values=values,
        instances=tuple(
            InstanceReading(number=number, profile=profile, values=told)
            for number, (profile, told) in sorted(instances.items())
        ),
    )


def _gpu(read: GpuReading) -> Gpu:
    """Older exporters do not tell the total: it is the sum of its parts."""
    total = read.values.get(TOTAL_MIB, sum(read.values.get(name, 0) for name in _MEMORY))
    return Gpu(
        index=read.index,
        uuid=read.uuid,
        memory_mib=round(total),
        mig=bool(read.instances),
        pci=read.pci,
    )
