"""Dashboards made for dcgm-exporter go on working: each query of NVIDIA's own (12239) has data.

And what changes is seen in time. The agent reads the stand-in of eight H100 and has the label
`Hostname`, as that dashboard asks for it; a real Prometheus scrapes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from deploy.local.processes import wait_until
from deploy.observe.servers import Observing
from tests.observe.live import ask
from tests.support.agents import AgentProcess, until
from tests.support.nvml.boards import h100

CHOICE: Final = '{Hostname=~".+", gpu=~".+"}'
BY_GPU: Final = "by (Hostname, gpu, UUID)"
QUERIES: Final = {
    "temperature": f"max(DCGM_FI_DEV_GPU_TEMP{CHOICE}) {BY_GPU}",
    "mean temperature": f"avg(DCGM_FI_DEV_GPU_TEMP{CHOICE})",
    "power": f"max(DCGM_FI_DEV_POWER_USAGE{CHOICE}) {BY_GPU}",
    "power in all": f"sum(max(DCGM_FI_DEV_POWER_USAGE{CHOICE}) by (gpu))",
    "clock": f"max(DCGM_FI_DEV_SM_CLOCK{CHOICE} * 1000000) {BY_GPU}",
    "use": f"max(DCGM_FI_PROF_GR_ENGINE_ACTIVE{CHOICE}) by (Hostname, gpu, GPU_I_ID)",
    "tensor pipe": f"max(DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{CHOICE}) by (Hostname, gpu, GPU_I_ID)",
    "memory": f"max(DCGM_FI_DEV_FB_USED{CHOICE}) by (Hostname, gpu, GPU_I_ID)",
}
OF_ALL: Final = frozenset({"mean temperature", "power in all"})
GPUS: Final = 8
CHANGED_CELSIUS: Final = 77
AGENT_SECONDS_MAX: Final = 2.0
PROMETHEUS_SECONDS_MAX: Final = 4.0


@pytest.fixture(scope="module")
def scraped(
    kafka: str, prometheus: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[AgentProcess, Observing]]:
    folder = tmp_path_factory.mktemp("vendor")
    more = {"MUSTER_AGENT_HOSTNAME_LABEL": "Hostname"}
    agent = AgentProcess(kafka, "vendor", folder / "node-a", h100(), **more)
    found = Observing(folder / "observe", {}, agents=[f"127.0.0.1:{agent.port}"], seconds=1)
    try:
        wait_until(
            lambda: bool(agent.metric("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{")),
            seconds=90,
            what="an agent that read its GPUs twice",
        )
        found.start()
        wait_until(
            lambda: bool(ask(found, "query", query="DCGM_FI_DEV_FB_USED")["result"]),
            seconds=90,
            what="the first scrape",
        )
        yield agent, found
    finally:
        found.stop()
        agent.end()


@pytest.mark.parametrize("what", QUERIES)
def test_every_query_is_answered_for_every_gpu(
    scraped: tuple[AgentProcess, Observing], what: str
) -> None:
    series = ask(scraped[1], "query", query=QUERIES[what])["result"]

    assert len(series) >= (1 if what in OF_ALL else GPUS), series
    assert all(float(one["value"][1]) > 0 for one in series)
    if what not in OF_ALL:
        assert {one["metric"]["Hostname"] for one in series} == {"node-a"}


def test_a_change_of_a_device_is_seen_in_time(scraped: tuple[AgentProcess, Observing]) -> None:
    """In the agent's own metrics, and in a Prometheus that scrapes every second."""
    agent, observing = scraped
    query = f'DCGM_FI_DEV_GPU_TEMP{{gpu="3"}} == {CHANGED_CELSIUS}'

    def on_the_node() -> bool:
        return CHANGED_CELSIUS in agent.metric('DCGM_FI_DEV_GPU_TEMP{gpu="3"').values()

    agent.stand_in.write(gpu__3__temperature=CHANGED_CELSIUS)
    own = until(on_the_node, "the agent tells it")
    more = until(
        lambda: bool(ask(observing, "query", query=query)["result"]), "Prometheus tells it"
    )

    print(f"a change: {own:.2f} s to the agent's metric, {own + more:.2f} s to Prometheus")
    assert own < AGENT_SECONDS_MAX
    assert own + more < PROMETHEUS_SECONDS_MAX
