"""The openb trace (Alibaba, cluster-trace-gpu-v2023): its files and their mapping, ADR 12.

A node line is a node of one GPU product; a pod line is a workload of one pod that never ends.
Pure, but for reading the two files.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from shared.core.model.nouns import (
    Gpu,
    GpuChoice,
    GpuRequest,
    Node,
    PodSet,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.model.units import GPU_MILLI, Resources

Mapped = TypeVar("Mapped")
FLAVOR: Final = "default"
PRIORITY_CLASS: Final = "replay"
QUOTA_PERCENT: Final = 130
MEMORY_MIB: Final[Mapping[str, int]] = {
    "V100M16": 16_384,
    "V100M32": 32_768,
    "P100": 16_384,
    "T4": 15_360,
    "A10": 24_576,
    "G1": 24_576,
    "G2": 24_576,
    "G3": 81_920,
}
"""The files name products, not memory; G1-G3 are anonymous there and assumed (ADR 12)."""


class BadTrace(ValueError):  # noqa: N818  # the name says what it is
    """A file is not what the trace promises; the text says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Nodes and, in order of submission, workloads."""

    nodes: tuple[Node, ...]
    specs: tuple[WorkloadSpec, ...]

    @property
    def capacity(self) -> Resources:
        """Everything there is."""
        return Resources(
            gpu_milli=sum(len(node.gpus) for node in self.nodes) * GPU_MILLI,
            cpu_milli=sum(node.cpu_milli for node in self.nodes),
            memory_mib=sum(node.memory_mib for node in self.nodes),
        )

    @property
    def products(self) -> tuple[str, ...]:
        """GPU products of the fleet, by name."""
        return tuple(sorted({node.product for node in self.nodes if node.product}))


def read_trace(nodes_file: Path, pods_file: Path) -> Trace:
    """Both files, plain or gzip, mapped.

    Raises:
        BadTrace: a column is missing, a number is none, or a product is unknown.
        OSError: a file cannot be read.
    """
    nodes = _mapped(nodes_file, ("sn", "cpu_milli", "memory_mib", "gpu", "model"), _node)
    memory = {node.product: MEMORY_MIB[node.product] for node in nodes if node.product}
    needed = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    return Trace(nodes=nodes, specs=_mapped(pods_file, needed, lambda row: spec_of(row, memory)))


def _mapped(
    path: Path, needed: Sequence[str], convert: Callable[[dict[str, str]], Mapped]
) -> tuple[Mapped, ...]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open("rt") as file:
        rows = csv.DictReader(file)
        missing = set(needed) - set(rows.fieldnames or ())
        if missing:
            raise BadTrace(f"{path}: no column {', '.join(sorted(missing))}")
        result = []
        for number, row in enumerate(rows, 2):
            try:
                result.append(convert(row))
            except (ValueError, TypeError) as error:
                raise BadTrace(f"{path}, line {number}: {error}") from error
        return tuple(result)


def _node(row: Mapping[str, str]) -> Node:
    product, count = row["model"], int(row["gpu"] or 0)
    if count and product not in MEMORY_MIB:
        raise BadTrace(f"the memory of a {product!r} is not known (ADR 12)")
    name = row["sn"].lower()
    gpus = tuple(
        Gpu(index=index, uuid=f"{name}-gpu-{index}", memory_mib=MEMORY_MIB[product])
        for index in range(count)
    )
    return Node(
        name=name,
        flavor=FLAVOR,
        product=product if count else "",
        cpu_milli=int(row["cpu_milli"]),
        memory_mib=int(row["memory_mib"]),
        gpus=gpus,
    )


def spec_of(row: Mapping[str, str], memory_mib: Mapping[str, int]) -> WorkloadSpec:
    """The workload of a pod line; `memory_mib` is the memory of a GPU by product of the fleet."""
    products = tuple(one for one in (row.get("gpu_spec") or "").split("|") if one)
    count, milli = int(row["num_gpu"]), int(row["gpu_milli"])
    gpu = _gpu_request(count, milli, products, memory_mib)
    return WorkloadSpec(
        name=row["name"].lower(),
        kind=WorkloadKind.TRAINING if gpu.count else WorkloadKind.BATCH_INFERENCE,
        priority_class=PRIORITY_CLASS,
        pod_sets=(
            PodSet(gpu=gpu, cpu_milli=int(row["cpu_milli"]), memory_mib=int(row["memory_mib"])),
        ),
        gpu_choice=GpuChoice(products=products if count else ()),
    )


def _gpu_request(
    count: int, milli: int, products: Sequence[str], memory_mib: Mapping[str, int]
) -> GpuRequest:
    """A fraction's memory is its share of the smallest GPU that the pod accepts."""
    if count == 1 and 0 < milli < GPU_MILLI:
        accepted = [memory_mib[one] for one in products if one in memory_mib]
        smallest = min(accepted or memory_mib.values(), default=1)
        return GpuRequest(milli=milli, memory_mib=max(1, milli * smallest // GPU_MILLI))
    return GpuRequest(count=count)


def quota_of(capacity: Resources) -> Resources:
    """130 % of the fleet, so that quota never decides in this replay."""
    return Resources(
        gpu_milli=capacity.gpu_milli * QUOTA_PERCENT // 100,
        cpu_milli=capacity.cpu_milli * QUOTA_PERCENT // 100,
        memory_mib=capacity.memory_mib * QUOTA_PERCENT // 100,
    )
