"""Device metrics as text: what dcgm-exporter would write, of a real board and of made ones."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from shared.core.telemetry.exposition import Exposed, PodOfDevice, exposition
from shared.core.telemetry.readings import GpuReading, InstanceReading, NodeReading

BOARD = Path("tests/fixtures/h200")
USED = "DCGM_FI_DEV_FB_USED"


def a_reading(*gpus: GpuReading) -> NodeReading:
    return NodeReading(at_ms=1, driver="580", gpus=gpus)


def lines(exposed: Exposed) -> list[str]:
    return [line for line in exposition(exposed).splitlines() if not line.startswith("#")]


def test_the_text_of_a_real_board_is_the_one_that_was_written_on_it():
    reading = msgspec.json.decode((BOARD / "at-rest.json").read_bytes(), type=NodeReading)

    text = exposition(Exposed(reading=reading, hostname="here"))

    assert text == (BOARD / "metrics.txt").read_text()
    names = {family.name for family in text_string_to_metric_families(text)}
    assert {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"} <= names
    assert "DCGM_FI_DEV_FAN_SPEED" not in names, "the board has no fan"


def test_labels_are_those_of_dcgm_exporter():
    gpu = GpuReading(
        index=3, uuid="GPU-3", pci="00000000:1B:00.0", model="NVIDIA H200", minor=4,
        values={USED: 5},
    )  # fmt: skip

    assert lines(Exposed(reading=a_reading(gpu), hostname="n1")) == [
        (
            f'{USED}{{gpu="3",UUID="GPU-3",pci_bus_id="00000000:1B:00.0",device="nvidia4",'
            'modelName="NVIDIA H200",hostname="n1",DCGM_FI_DRIVER_VERSION="580"} 5'
        )
    ]
    (old,) = lines(Exposed(reading=a_reading(gpu), hostname="n1", hostname_label="Hostname"))
    assert ',Hostname="n1",' in old


def test_instances_and_pods_have_labels_of_their_own():
    slice_ = InstanceReading(number=2, profile="1g.18gb", uuid="MIG-2", values={USED: 0.5})
    gpu = GpuReading(index=0, uuid="GPU-0", values={USED: 7}, instances=(slice_,))
    pods = {"MIG-2": PodOfDevice(namespace="vision", pod="train-0", container="main")}

    whole, part = lines(Exposed(reading=a_reading(gpu), hostname="n1", pods=pods))

    assert 'pod="' not in whole
    assert part.endswith(
        ',GPU_I_PROFILE="1g.18gb",GPU_I_ID="2",'
        'namespace="vision",pod="train-0",container="main"} 0.5'
    )


def test_names_of_pods_cannot_leave_their_label():
    pods = {"GPU-0": PodOfDevice(namespace="a", pod='x"} 1\nevil{a="\\', container="c")}
    gpu = GpuReading(index=0, uuid="GPU-0", values={USED: 7})

    text = exposition(Exposed(reading=a_reading(gpu), hostname="n1", pods=pods))

    (family,) = text_string_to_metric_families(text)
    assert family.samples[0].labels["pod"] == 'x"} 1\nevil{a="\\'


def test_errors_are_counted_and_the_last_is_told():
    gpu = GpuReading(index=0, uuid="GPU-0")
    exposed = Exposed(
        reading=a_reading(gpu), hostname="n1", last_xids={0: 31}, xids={(0, 31): 2, (5, 79): 1}
    )

    last, counted, of_a_lost_one = lines(exposed)

    assert last.startswith("DCGM_FI_DEV_XID_ERRORS{")
    assert last.endswith(" 31")
    assert 'UUID="GPU-0"' in counted
    assert counted.endswith('xid="31",class="app"} 2')
    assert of_a_lost_one == 'muster_gpu_xid_total{gpu="5",hostname="n1",xid="79",class="node"} 1'


@pytest.mark.parametrize(
    ("value", "text"), [(2955320.0, "2955320"), (81.683, "81.683"), (3.8e-06, "3.8e-06")]
)
def test_numbers_are_whole_where_they_can_be(value, text):
    gpu = GpuReading(index=0, uuid="GPU-0", values={USED: value})

    (line,) = lines(Exposed(reading=a_reading(gpu), hostname="n1"))

    assert line.endswith(f" {text}")


def test_without_gpus_there_is_no_text():
    assert exposition(Exposed(reading=a_reading(), hostname="n1")) == ""
