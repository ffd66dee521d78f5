"""A probe that reads a description instead of NVML: for nodes without a GPU, and for tests.

The file holds one node (`core.model.Node`) as JSON or YAML. It is read again whenever it changes:
setting `healthy: false` on a GPU, or `ready: false`, is reported as the failure that it describes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import yaml

from shared.core.model.nouns import Node
from shared.core.model.value import replace
from shared.events.nodes import GpuUsageReported
from shared.ports.clock import Clock
from shared.ports.probe import Change
from shared.simulator.machine import Machine

REASON: Final = "described"


class DescribedProbe:
    """`ports.probe.GpuProbe` on a file; its generation goes up with every change of it."""

    def __init__(self, path: Path, *, clock: Clock, cell: int = 0) -> None:
        self._path = path
        self._clock = clock
        self._cell = cell
        self._content = path.read_bytes()
        self._machine = Machine(
            read_node(path, self._content), now_ms=clock.now_ms(), seed=0, cell=cell
        )

    @property
    def name(self) -> str:
        """The node's name."""
        return self._machine.name

    @property
    def generation(self) -> int:
        """Of the inventory as it was read last."""
        return self._machine.generation

    def inventory(self) -> Node:
        """The node as described now."""
        return self._machine.inventory()

    def usage(self, at_ms: int) -> GpuUsageReported:
        """Nothing is known to run: idle."""
        return self._machine.usage(at_ms)

    def changes(self) -> Sequence[Change]:
        """What the file says differently since the last call; a broken file changes nothing."""
        try:
            content = self._path.read_bytes()
            if content == self._content:
                return []
            node = read_node(self._path, content)
        except (OSError, ValueError):
            return []
        self._content = content
        self._follow(node)
        return self._machine.changes()

    def _follow(self, node: Node) -> None:
        now_ms = self._clock.now_ms()
        before = self._machine
        health = {gpu.index: gpu.healthy for gpu in before.inventory().gpus}
        gpus = tuple(replace(gpu, healthy=health.get(gpu.index, True)) for gpu in node.gpus)
        known = replace(node, gpus=gpus, ready=before.inventory().ready)
        generation = max(now_ms, before.generation + 1)
        self._machine = Machine(known, now_ms=generation, seed=0, cell=self._cell)
        self._machine.set_ready(now_ms, ready=node.ready, reason=REASON)
        for gpu in node.gpus:
            self._machine.set_gpu(gpu.index, now_ms, healthy=gpu.healthy, reason=REASON)
        self._machine.generation += 1  # so that the new inventory is told after the changes


def read_node(path: Path, content: bytes) -> Node:
    """The node that a file describes.

    Raises:
        ValueError: it is not a node; the message says where and why.
    """
    try:
        document = (
            msgspec.json.decode(content) if path.suffix == ".json" else yaml.safe_load(content)
        )
        return msgspec.convert(document, Node)
    except (msgspec.DecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {error}") from error
