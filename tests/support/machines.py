"""Real machines from the folder of topologies: links between GPUs and NUMA domains, read in code.

Three kinds of files: tables of `nvidia-smi topo -m`, transcribed facts in sentences, and NCCL's
XML, where only the PCIe tree counts (one bridge PIX, one socket PHB, else SYS).
"""

from __future__ import annotations

import os
import re
from itertools import combinations
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

FOLDER = Path(os.environ.get("MUSTER_DATA", "../shared/data")) / "topologies"
GPU_CLASS = "0x0302"
PCIE = {"PIX": "I", "PXB": "P", "PHB": "H", "NODE": "N", "SYS": "S"}
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Machine(NamedTuple):
    """As a node reports it."""

    links: str
    numas: tuple[int, ...]


def character(word: str) -> str:
    """`NV12` or `PHB` as one character."""
    return DIGITS[int(word[2:])] if word.startswith("NV") else PCIE[word]


def from_table(name: str) -> Machine:
    """`GPU0 X NV1 ... numa0`, a line for each GPU."""
    rows = [line.split() for line in (FOLDER / name).read_text().splitlines() if line.strip()]
    pairs = combinations(range(len(rows)), 2)
    links = "".join(character(rows[one][1 + other]) for one, other in pairs)
    return Machine(links, tuple(int(row[-1].removeprefix("numa")) for row in rows))


def from_facts(name: str) -> Machine:
    """All pairs alike; NUMA by line, by range or by list, or one domain if none is told."""
    text = (FOLDER / name).read_text()
    links = re.search(r"NV\d+", text)
    assert links is not None
    numas = dict.fromkeys(range(8), 0)
    for gpu, numa in re.findall(r"^GPU(\d) .*numa(\d)", text, re.MULTILINE):
        numas[int(gpu)] = int(numa)
    for first, last, numa in re.findall(r"GPU(\d)-(\d) numa(\d)", text):
        numas.update(dict.fromkeys(range(int(first), int(last) + 1), int(numa)))
    for one, other, numa in re.findall(r"GPU(\d),(\d)->(\d)", text):
        numas.update({int(one): int(numa), int(other): int(numa)})
    return Machine(character(links.group()), tuple(numas[gpu] for gpu in range(8)))


def from_nccl(name: str) -> Machine:
    """GPUs in the order of the file, under their bridges and sockets."""
    places: list[tuple[int, str]] = []
    for cpu in ET.parse(FOLDER / name).getroot().iter("cpu"):
        numa = int(cpu.get("numaid", "0"))
        for device in cpu:
            inner = [each for each in device.iter("pci") if _is_gpu(each)]
            alone = "" if len(inner) == 1 and _is_gpu(device) else device.get("busid", "")
            places += [(numa, alone)] * len(inner)
    links = "".join(_link(one, other) for one, other in combinations(places, 2))
    return Machine(links, tuple(numa for numa, _ in places))


def _is_gpu(device: ET.Element) -> bool:
    return device.tag == "pci" and device.get("class", "").startswith(GPU_CLASS)


def _link(one: tuple[int, str], other: tuple[int, str]) -> str:
    if one[0] != other[0]:
        return "S"
    return "I" if one[1] and one[1] == other[1] else "H"
