"""Who holds each GPU, as text for Prometheus."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.parser import text_string_to_metric_families

from services.monitoring.gauges.holders import HOLDER, PATH
from shared.core.model.nouns import GpuShare
from shared.runtime.handler import Exposing
from shared.runtime.health import health_app
from tests.unit.monitoring import builders as b
from tests.unit.monitoring.test_monitoring import Monitoring


async def holders(monitoring: Monitoring) -> dict[tuple[str, str, str], float]:
    """Share by host, GPU (with the number of a slice) and team, as a scrape reads it."""
    assert isinstance(monitoring.handler, Exposing)
    app = health_app(lambda: True, more_paths=monitoring.handler.expositions())
    async with TestClient(TestServer(app)) as client:
        text = await (await client.get(PATH)).text()
        assert HOLDER not in await (await client.get("/metrics")).text()
    (family,) = text_string_to_metric_families(text)
    assert {one.name for one in family.samples} <= {HOLDER}
    return {
        (one.labels["hostname"], _device(one.labels), one.labels["team"]): one.value
        for one in family.samples
    }


def _device(labels: dict[str, str]) -> str:
    return "/".join(labels[name] for name in ("gpu", "GPU_I_ID") if name in labels)


def share(index: int, mask: int, milli: int) -> GpuShare:
    return GpuShare(index=index, mask=mask, milli=milli, memory_mib=0)


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        ((share(3, 255, 1000),), {("n1", "3", "vision"): 1.0}),
        ((share(0, 0, 250), share(0, 0, 500)), {("n1", "0", "vision"): 0.75}),
        ((share(1, 15, 500),), {}),
        ((share(1, 3, 250), share(1, 12, 250)), {("n1", "1/8", "vision"): 0.25}),
    ],
    ids=["a whole GPU", "shares of one", "a slice without a number", "one of two has a number"],
)
async def test_a_gpu_is_told_with_who_holds_it(
    shares: tuple[GpuShare, ...], told: dict[tuple[str, str, str], float]
) -> None:
    monitoring = Monitoring()
    monitoring.read(b.queued(), b.placed(2, shares=shares))
    monitoring.read(b.usage(0, 0, instances=((0, 12, 50), (1, 12, 50))))

    assert await holders(monitoring) == told

    monitoring.read(b.released(b.workloads.WorkloadSucceeded, 3, b.START_MS))
    assert await holders(monitoring) == {}


async def test_what_is_held_has_its_queue_and_kind_and_hostile_names_stay_values() -> None:
    monitoring = Monitoring()
    monitoring.read(b.queued(team='a"\n'), b.placed(2, team='a"\n'))

    text = monitoring.handler.expositions()[PATH]()

    (family,) = text_string_to_metric_families(text)
    (one,) = family.samples
    assert one.labels["team"] == 'a"\n'
    assert (one.labels["queue"], one.labels["kind"]) == ('a"\n-queue', "training")
