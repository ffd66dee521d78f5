"""From a description to nodes: groups of equal machines, laid out in racks, blocks and zones.

Pure and deterministic: the same description gives the same nodes, uuids included. A fleet file is
JSON (or YAML): `{"groups": [...], "nodes": [...]}`, where a group stands for `count` machines and
a node is written out in full (`core.model.Node`).
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from shared.core.model.nouns import Gpu, Node

NODES_DEFAULT: Final = 1_200
ZONES: Final = 3
UUID_BYTES: Final = 16


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`count` equal machines named `<name>-0000`, `<name>-0001`, ..."""

    name: str
    count: int
    flavor: str
    product: str = ""
    gpus: int = 0
    gpu_memory_mib: int = 0
    mig: bool = False
    nvswitch: bool = False
    """All GPUs of a machine are in one NVLink domain."""
    links: str = ""
    """Links between the GPUs of a machine (core/cluster/node_links.py); empty: unknown."""
    cpu_milli: int = 64_000
    memory_mib: int = 262_144
    pool: str = "default"
    driver: str = "570.86.15"
    cuda: str = "12.8"
    nodes_per_rack: int = 4
    racks_per_block: int = 8
    taints: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    """What every machine of the group has pulled already."""


class FleetFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of a fleet file."""

    groups: tuple[Group, ...] = ()
    nodes: tuple[Node, ...] = ()


def _sxm(name: str, count: int, product: str, memory_mib: int, links: str) -> Group:
    """An eight-GPU machine with NVSwitch: every pair has the same NVLinks."""
    return Group(
        name=name,
        count=count,
        flavor=name,
        product=product,
        gpus=8,
        gpu_memory_mib=memory_mib,
        nvswitch=True,
        links=links,
        cpu_milli=192_000,
        memory_mib=2_064_384,
    )


_H100 = _sxm("h100", 400, "NVIDIA-H100-80GB-HBM3", 81_559, "i")
_A100 = _sxm("a100", 250, "NVIDIA-A100-SXM4-80GB", 81_920, "c")
DEFAULT_GROUPS: Final = (
    _H100,
    _A100,
    _sxm("h200", 150, "NVIDIA-H200", 143_771, "i"),
    msgspec.structs.replace(_H100, name="h100-mig", count=40, mig=True, pool="mig"),
    msgspec.structs.replace(_A100, name="a100-mig", count=60, mig=True, pool="mig"),
    Group(
        name="l4",
        count=120,
        flavor="l4",
        product="NVIDIA-L4",
        gpus=4,
        gpu_memory_mib=23_034,
        links="HSSSSH",
        cpu_milli=96_000,
        memory_mib=393_216,
        pool="inference",
        nodes_per_rack=8,
    ),
    Group(
        name="t4",
        count=80,
        flavor="t4",
        product="Tesla-T4",
        gpus=4,
        gpu_memory_mib=15_360,
        links="HSSSSH",
        cpu_milli=48_000,
        memory_mib=196_608,
        pool="inference",
        driver="535.183.01",
        cuda="12.2",
        nodes_per_rack=8,
    ),
    Group(
        name="cpu",
        count=100,
        flavor="cpu",
        cpu_milli=128_000,
        memory_mib=524_288,
        pool="cpu",
        driver="",
        cuda="",
        nodes_per_rack=16,
    ),
)
"""1,200 machines: 840 with eight large GPUs (100 of them for MIG), 200 for inference, 100 none."""


def scaled(groups: tuple[Group, ...], nodes: int) -> tuple[Group, ...]:
    """The same mix with `nodes` machines in all; the largest group takes the rounding."""
    total = sum(group.count for group in groups)
    counts = [group.count * nodes // total for group in groups]
    largest = max(range(len(groups)), key=lambda index: groups[index].count)
    counts[largest] += nodes - sum(counts)
    return tuple(
        msgspec.structs.replace(group, count=count)
        for group, count in zip(groups, counts, strict=True)
    )


def nodes_of(file: FleetFile, seed: int) -> list[Node]:
    """All nodes of a fleet; `seed` makes the uuids of its GPUs.

    Raises:
        ValueError: two nodes have the same name.
    """
    nodes = list(file.nodes)
    blocks_before = 0
    for group in file.groups:
        nodes += [_node(group, index, blocks_before, seed) for index in range(group.count)]
        nodes_per_block = group.nodes_per_rack * group.racks_per_block
        blocks_before += -(-group.count // nodes_per_block)
    names = [node.name for node in nodes]
    if len(set(names)) != len(names):
        raise ValueError("fleet: two nodes have the same name")
    return nodes


def _node(group: Group, index: int, blocks_before: int, seed: int) -> Node:
    name = f"{group.name}-{index:04d}"
    rack_number = index // group.nodes_per_rack
    block_number = blocks_before + rack_number // group.racks_per_block
    zone = f"zone-{'abc'[block_number % ZONES]}"
    block = f"{zone}/block-{block_number:03d}"
    return Node(
        name=name,
        flavor=group.flavor,
        product=group.product,
        cpu_milli=group.cpu_milli,
        memory_mib=group.memory_mib,
        gpus=tuple(_gpu(group, name, number, seed) for number in range(group.gpus)),
        pool=group.pool,
        zone=zone,
        block=block,
        rack=f"{block}/rack-{rack_number % group.racks_per_block}",
        nvlink_domain=name if group.nvswitch else "",
        driver=group.driver,
        cuda=group.cuda,
        taints=group.taints,
        links=group.links,
        images=group.images,
    )


def _gpu(group: Group, node: str, number: int, seed: int) -> Gpu:
    text = f"{seed}/{node}/{number}".encode()
    digits = hashlib.blake2b(text, digest_size=UUID_BYTES).hexdigest()
    uuid = f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return Gpu(
        index=number,
        uuid=uuid,
        memory_mib=group.gpu_memory_mib,
        mig=group.mig,
        numa=number * 2 // group.gpus,
    )
