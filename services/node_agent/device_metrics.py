"""The text of /metrics that tells of devices: as dcgm-exporter writes it, and Muster's own."""

from __future__ import annotations

from collections.abc import Callable

from services.node_agent.device_owners import DeviceOwners
from services.node_agent.live_probe import LiveProbe
from services.node_agent.xids import Xids
from shared.core.telemetry.exposition import Exposed, exposition


def device_metrics(
    probe: LiveProbe, xids: Xids, owners: DeviceOwners | None, hostname_label: str
) -> Callable[[], str]:
    """What renders the last reading; a scrape asks no device."""

    def render() -> str:
        exposed = Exposed(
            reading=probe.reading,
            hostname=probe.name,
            hostname_label=hostname_label,
            pods={} if owners is None else owners.of(probe.reading),
            last_xids={gpu.index: xids.last.get(gpu.index, 0) for gpu in probe.reading.gpus},
            xids=xids.counts,
        )
        return exposition(exposed)

    return render
