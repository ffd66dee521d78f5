"""A node agent on a description: what the file says is what is reported."""

import json
from typing import Any

import pytest

from services.node_agent.probe import DescribedProbe

NOW = 1_700_000_000_000


class ManualClock:
    def now_ms(self):
        return NOW

    def monotonic_seconds(self):
        return 0.0


def a_node(**fields):
    gpus = [{"index": number, "uuid": f"GPU-{number}", "memory_mib": 1000} for number in (0, 1)]
    node = {"name": "n1", "flavor": "h100", "product": "H100", "cpu_milli": 1000,
            "memory_mib": 4000, "gpus": gpus}  # fmt: skip
    return node | fields


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "node.json"
    path.write_text(json.dumps(a_node()))
    return path


def test_the_inventory_is_the_description(path):
    probe = DescribedProbe(path, clock=ManualClock())

    node = probe.inventory()

    assert (node.name, len(node.gpus), node.gpus[1].memory_mib) == ("n1", 2, 1000)
    assert probe.changes() == []
    assert (probe.usage(NOW).utilization_percent, probe.usage(NOW).unread) == ((0, 0), (0, 1))


def test_yaml_is_read_too(tmp_path):
    path = tmp_path / "node.yaml"
    path.write_text("{name: n1, flavor: cpu, product: '', cpu_milli: 1, memory_mib: 1, gpus: []}")

    assert DescribedProbe(path, clock=ManualClock()).inventory().flavor == "cpu"


def test_a_gpu_that_becomes_unhealthy_in_the_file_is_reported_once(path):
    probe = DescribedProbe(path, clock=ManualClock())
    node = a_node()
    node["gpus"][1]["healthy"] = False
    path.write_text(json.dumps(node))

    changes: Any = probe.changes()

    assert [(one.gpu, one.healthy, one.reason) for one in changes] == [(1, False, "described")]
    assert probe.changes() == []
    assert [gpu.healthy for gpu in probe.inventory().gpus] == [True, False]


def test_a_changed_inventory_has_a_newer_generation_than_its_changes_of_health(path):
    probe = DescribedProbe(path, clock=ManualClock())
    before = probe.generation
    path.write_text(json.dumps(a_node(cpu_milli=2000, ready=False)))

    changes: Any = probe.changes()

    assert [(one.gpu, one.healthy) for one in changes] == [(-1, False)]
    assert before < changes[0].generation < probe.generation
    assert probe.inventory().cpu_milli == 2000


@pytest.mark.parametrize("text", ["", "{", '{"name": "n1"}'])
def test_a_broken_file_changes_nothing(path, text):
    probe = DescribedProbe(path, clock=ManualClock())
    path.write_text(text)

    assert probe.changes() == []
    assert probe.inventory().name == "n1"


def test_a_broken_file_at_the_start_says_where_and_why(path):
    path.write_text('{"name": 5}')

    with pytest.raises(ValueError, match=r"node\.json"):
        DescribedProbe(path, clock=ManualClock())
