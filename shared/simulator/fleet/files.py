"""Reads a fleet file, or makes the default fleet."""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml

from shared.core.model.nouns import Node
from shared.simulator.fleet.description import DEFAULT_GROUPS, FleetFile, nodes_of, scaled


def read_fleet(path: Path | None, nodes: int, seed: int) -> list[Node]:
    """The nodes of the file, or `nodes` of the default mix.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no fleet file; the message says where and why.
    """
    if path is None:
        return nodes_of(FleetFile(groups=scaled(DEFAULT_GROUPS, nodes)), seed)
    content = path.read_bytes()
    try:
        document = (
            msgspec.json.decode(content) if path.suffix == ".json" else yaml.safe_load(content)
        )
        return nodes_of(msgspec.convert(document, FleetFile), seed)
    except (msgspec.DecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {error}") from error
