"""The mapping of the openb trace (ADR 12), line by line."""

import gzip
from pathlib import Path

import pytest

from operations.replay.openb import MEMORY_MIB, BadTrace, quota_of, read_trace, spec_of
from shared.core.admission.admit import check_kind
from shared.core.admission.errors import Errors
from shared.core.admission.form import check_form
from shared.core.model.nouns import GpuRequest, WorkloadKind

NODES = """sn,cpu_milli,memory_mib,gpu,model
openb-node-0000,64000,262144,2,P100
openb-node-0001,96000,393216,8,T4
openb-node-0002,96000,393216,0,
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos
openb-pod-0000,12000,16384,1,1000,,LS
openb-pod-0001,6000,12288,1,460,,LS
openb-pod-0002,6000,12288,1,500,P100,LS
openb-pod-0003,4000,8192,0,0,T4,LS
openb-pod-0004,64000,8192,8,1000,T4|V100M32,LS
"""
FLEET = {"P100": MEMORY_MIB["P100"], "T4": MEMORY_MIB["T4"]}


@pytest.fixture
def trace(tmp_path: Path):
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv.gz"
    nodes.write_text(NODES)
    pods.write_bytes(gzip.compress(PODS.encode()))
    return read_trace(nodes, pods)


def pod(**columns: str):
    row = {"name": "p", "cpu_milli": "1000", "memory_mib": "1024", "num_gpu": "0"}
    return spec_of({**row, "gpu_milli": "0", **columns}, FLEET)


def test_nodes_keep_their_product_their_gpus_and_their_amounts(trace):
    first, _, cpu_only = trace.nodes

    assert (first.name, first.product, first.flavor) == ("openb-node-0000", "P100", "default")
    assert [gpu.memory_mib for gpu in first.gpus] == [16_384, 16_384]
    assert len({gpu.uuid for node in trace.nodes for gpu in node.gpus}) == 10
    assert (cpu_only.gpus, cpu_only.product) == ((), "")


def test_a_whole_gpu_is_training_and_asks_for_it_whole(trace):
    whole = trace.specs[0]

    assert whole.kind is WorkloadKind.TRAINING
    assert whole.pod_sets[0].gpu == GpuRequest(count=1)
    assert (whole.pod_sets[0].cpu_milli, whole.pod_sets[0].memory_mib) == (12_000, 16_384)


def test_a_fraction_gets_its_share_of_the_smallest_gpu_it_accepts(trace):
    any_gpu, only_p100 = trace.specs[1], trace.specs[2]

    assert any_gpu.kind is WorkloadKind.BATCH_INFERENCE
    assert any_gpu.pod_sets[0].gpu == GpuRequest(milli=460, memory_mib=460 * 15_360 // 1000)
    assert only_p100.pod_sets[0].gpu == GpuRequest(milli=500, memory_mib=8192)


def test_a_fraction_never_asks_for_more_memory_than_its_milli_of_any_accepted_gpu():
    for milli in (1, 110, 333, 810, 999):
        share = pod(num_gpu="1", gpu_milli=str(milli)).pod_sets[0].gpu
        assert all(share.memory_mib <= max(1, milli * one // 1000) for one in FLEET.values())


def test_a_cpu_only_pod_has_no_wish_for_a_product(trace):
    cpu_only = trace.specs[3]

    assert cpu_only.kind is WorkloadKind.BATCH_INFERENCE
    assert cpu_only.pod_sets[0].gpu == GpuRequest()
    assert cpu_only.gpu_choice.products == ()


def test_gpu_spec_names_the_accepted_products(trace):
    assert trace.specs[4].gpu_choice.products == ("T4", "V100M32")
    assert trace.specs[4].pod_sets[0].gpu == GpuRequest(count=8)


def test_every_pod_passes_the_form_and_the_kind_policy(trace):
    errors = Errors()
    for spec in trace.specs:
        check_form(spec, errors)
        check_kind(spec, errors)

    assert errors == []


def test_quota_is_130_percent_of_the_fleet(trace):
    quota = quota_of(trace.capacity)

    assert (trace.capacity.gpu_milli, quota.gpu_milli) == (10_000, 13_000)
    assert quota.memory_mib == trace.capacity.memory_mib * 130 // 100


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ("sn,cpu_milli\n", "no column gpu, memory_mib, model"),
        ("sn,cpu_milli,memory_mib,gpu,model\na,x,1,1,T4\n", "line 2"),
        ("sn,cpu_milli,memory_mib,gpu,model\na,1,1,1,H900\n", "H900"),
    ],
)
def test_a_file_that_is_no_trace_is_told_with_its_place(tmp_path: Path, nodes: str, told: str):
    path = tmp_path / "nodes.csv"
    path.write_text(nodes)

    with pytest.raises(BadTrace, match=told):
        read_trace(path, path)
