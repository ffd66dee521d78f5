"""What a dcgm-exporter tells, over HTTP: the same facts as NVML, and texts that are broken."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from shared.adapters.dcgm_exporter import BYTES_MAX, DcgmExporterSource, parse
from shared.core.telemetry.exposition import Exposed, exposition
from shared.core.telemetry.metrics import DEVICE_METRICS
from shared.core.telemetry.readings import GpuReading, InstanceReading, NodeReading
from shared.ports.gpu_source import SourceSilentError

BOARD = Path("tests/fixtures/h200")
LINE = b'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0",device="nvidia0",modelName="A B"} 40\n'


class SomeClock:
    def now_ms(self) -> int:
        return 7

    def monotonic_seconds(self) -> float:
        return 0.0


@pytest.mark.parametrize("name", ["at-rest", "computing"])
def test_the_text_of_a_board_tells_the_same_as_nvml_told(name):
    """But for processes, which an exporter does not know."""
    reading = msgspec.json.decode((BOARD / f"{name}.json").read_bytes(), type=NodeReading)
    (by_nvml,) = reading.gpus

    found = parse(exposition(Exposed(reading=reading, hostname="h")).encode())

    (by_text,) = found.gpus
    of_dcgm = {name: one for name, one in by_nvml.values.items() if name in DEVICE_METRICS}
    assert {one: pytest.approx(value, rel=1e-5) for one, value in of_dcgm.items()} == {
        **by_text.values
    }
    assert (by_text.uuid, by_text.pci, by_text.model, by_text.minor, found.driver) == (
        by_nvml.uuid, by_nvml.pci, by_nvml.model, by_nvml.minor, reading.driver,
    )  # fmt: skip


def test_instances_are_told_apart():
    part = InstanceReading(number=3, profile="1g.18gb", values={"DCGM_FI_DEV_FB_USED": 9})
    gpu = GpuReading(index=1, uuid="GPU-1", minor=1, values={}, instances=(part,))
    reading = NodeReading(at_ms=0, gpus=(gpu,))

    (found,) = parse(exposition(Exposed(reading=reading, hostname="h")).encode()).gpus

    assert found.instances == (part,)


@pytest.mark.parametrize(
    "bad",
    [
        LINE[:40] + b"\n",
        LINE.replace(b"40", b"NaN"),
        LINE.replace(b"40", b"forty"),
        LINE.replace(b"A B", b"A\xff"),
        LINE.replace(b'gpu="0"', b'gpu="x"'),
        LINE.replace(b'UUID="GPU-0"', b'UUID=""'),
        b"some_other_metric 1\n",
        b"}{\n",
    ],
)
def test_a_line_that_is_broken_is_absent_and_counted_and_its_neighbours_count(bad):
    found = parse(LINE + bad + LINE.replace(b"GPU_TEMP", b"MEMORY_TEMP"))

    assert found.refused == 1
    assert found.gpus[0].values == {"DCGM_FI_DEV_GPU_TEMP": 40, "DCGM_FI_DEV_MEMORY_TEMP": 40}


def test_a_text_that_is_cut_within_a_value_loses_that_value():
    found = parse(LINE + LINE.replace(b"GPU_TEMP", b"MEMORY_TEMP")[:-2])

    assert (found.refused, list(found.gpus[0].values)) == (1, ["DCGM_FI_DEV_GPU_TEMP"])


class Exporter:
    def __init__(self) -> None:
        self.body = LINE
        self.status = 200
        self.url = ""

    async def answer(self, _: web.Request) -> web.Response:
        return web.Response(body=self.body, status=self.status)


@pytest.fixture
async def exporter() -> AsyncIterator[Exporter]:
    one, app = Exporter(), web.Application()
    app.router.add_get("/metrics", one.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    one.url = f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    yield one
    await runner.cleanup()


@pytest.fixture
async def source(exporter: Exporter) -> AsyncIterator[DcgmExporterSource]:
    one = DcgmExporterSource(exporter.url, SomeClock())
    yield one
    await one.close()


async def test_devices_and_values_are_read(source, exporter):
    exporter.body += b'DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-0"} 100\n'

    devices, reading = await source.inventory(), await source.read()

    assert (devices.product, devices.gpus[0].memory_mib) == ("A-B", 100)
    assert (reading.at_ms, reading.gpus[0].values["DCGM_FI_DEV_GPU_TEMP"]) == (7, 40)
    assert "cannot change" in await source.set_mig("GPU-0", mig=True)


async def test_an_exporter_that_fails_tells_nothing(source, exporter):
    exporter.status = 500
    with pytest.raises(SourceSilentError, match="500"):
        await source.read()

    exporter.status, exporter.body = 200, b"# nothing\n"
    with pytest.raises(SourceSilentError, match="names no GPU"):
        await source.read()

    exporter.body = LINE
    assert (await source.read()).gpus


async def test_an_answer_that_is_huge_is_not_read_to_its_end(source, exporter):
    exporter.body = LINE * (BYTES_MAX // len(LINE) + 1)

    with pytest.raises(SourceSilentError, match="more than 4194304 bytes"):
        await source.read()


async def test_an_exporter_that_is_not_there_tells_nothing():
    source = DcgmExporterSource("http://127.0.0.1:1/metrics", SomeClock())
    with pytest.raises(SourceSilentError, match="does not answer"):
        await source.read()
    await source.close()
