"""What live workloads hold of each device, read from their placements.

The sum by node is a column of each workload; that of a device stands in its placement alone. To
read all placements of a fleet takes a tenth of a second, so it is done in a thread, by one caller
for all, and at most once in `SECONDS`, however many ask. For a list of nodes those on nodes with
GPUs in MIG mode are enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from services.gateway.app.context import GatewayContext
from shared.core.model.lifecycle import HOLDING
from shared.core.model.nouns import WHOLE_MASK

SECONDS: Final = 2.0
STATES: Final = sorted(state.value for state in HOLDING)
"""States in which a workload holds its devices."""
_FLEET: Final = (
    "SELECT id, team, placement FROM gateway.workload"
    " WHERE live AND state = ANY($1::text[]) AND placement IS NOT NULL"
)
_NODE: Final = f"{_FLEET} AND nodes @> ARRAY[$2::text]"
_MIG_NODES: Final = (
    "SELECT name FROM gateway.node WHERE NOT removed AND body LIKE '%\"mig\":true%'"
)
_ON_MIG: Final = f"{_FLEET} AND nodes && ARRAY({_MIG_NODES})"
_SPECS: Final = "SELECT id, spec FROM gateway.workload_spec WHERE id = ANY($1::text[])"
WHOLE_MASKS: Final = frozenset((0, WHOLE_MASK))
"""Slices of a time-sliced share, and of a whole board."""


class Hold(NamedTuple):
    """What one pod holds of one device."""

    workload: str
    team: str
    milli: int
    mask: int
    """Memory slices, a bit each; several instances of one pod stand together."""
    pod_set: str


class Held(NamedTuple):
    """All holds by (node, index), and the MIG profile by (workload, pod set)."""

    by_device: Mapping[tuple[str, int], Sequence[Hold]]
    profiles: Mapping[tuple[str, str], str]

    def of(self, node: str, index: int) -> Sequence[Hold]:
        """Holds of one device."""
        return self.by_device.get((node, index), ())

    def profile(self, hold: Hold) -> str:
        """The MIG profile that the pod asked for; empty: none, or its submission is not read."""
        return self.profiles.get((hold.workload, hold.pod_set), "")


class _Share(msgspec.Struct):
    index: int
    milli: int
    mask: int


class _Pod(msgspec.Struct):
    node: str
    pod_set: str
    shares: tuple[_Share, ...] = ()


class _Placement(msgspec.Struct):
    pods: tuple[_Pod, ...]


class _Gpu(msgspec.Struct, frozen=True):
    mig_profile: str = ""


class _PodSet(msgspec.Struct):
    name: str = "main"
    gpu: _Gpu = _Gpu()


class _Spec(msgspec.Struct):
    pod_sets: tuple[_PodSet, ...] = ()


_placements: Final = msgspec.json.Decoder(_Placement)
_specs: Final = msgspec.json.Decoder(_Spec)


async def held_of_node(gateway: GatewayContext, node: str) -> Held:
    """What is held of one node now."""
    rows = await gateway.reader.fetch(_NODE, STATES, node)
    return await _with_profiles(gateway, _holds(rows, node))


async def held_of_fleet(gateway: GatewayContext) -> Held:
    """What is held of all nodes, at most `SECONDS` old; concurrent requests share one read."""
    return await _shared(gateway, "held", _FLEET)


async def held_on_mig_nodes(gateway: GatewayContext) -> Held:
    """The same of nodes with a GPU in MIG mode; of others it is not whole."""
    return await _shared(gateway, "held on MIG nodes", _ON_MIG)


async def _shared(gateway: GatewayContext, key: str, query: str) -> Held:
    known = gateway.cache.get(key)
    if known is None or gateway.clock.monotonic_seconds() - known[0] >= SECONDS:
        task = asyncio.ensure_future(_read(gateway, query))
        known = gateway.cache[key] = (gateway.clock.monotonic_seconds(), task)
    found: asyncio.Future[Held] = known[1]
    try:
        return await asyncio.shield(found)
    except Exception:
        if gateway.cache.get(key) is known:
            del gateway.cache[key]
        raise


async def _read(gateway: GatewayContext, query: str) -> Held:
    rows = await gateway.reader.fetch(query, STATES)
    return await _with_profiles(gateway, await asyncio.to_thread(_holds, rows, ""))


def _holds(rows: Sequence[Any], node: str) -> dict[tuple[str, int], list[Hold]]:
    """Of one node, or of all for an empty name."""
    found: dict[tuple[str, int], list[Hold]] = {}
    for row in rows:
        identifier, team = row["id"], row["team"]
        for pod in _placements.decode(row["placement"]).pods:
            if node and pod.node != node:
                continue
            for share in pod.shares:
                hold = Hold(identifier, team, share.milli, share.mask, pod.pod_set)
                found.setdefault((pod.node, share.index), []).append(hold)
    return found


async def _with_profiles(
    gateway: GatewayContext, holds: Mapping[tuple[str, int], Sequence[Hold]]
) -> Held:
    """Submissions are read of those alone that hold a part of a board."""
    parts = {
        one.workload for device in holds.values() for one in device if one.mask not in WHOLE_MASKS
    }
    return Held(holds, await _profiles(gateway, sorted(parts)))


async def _profiles(gateway: GatewayContext, ids: Sequence[str]) -> dict[tuple[str, str], str]:
    if not ids:
        return {}
    rows = await gateway.reader.fetch(_SPECS, ids)
    return {
        (row["id"], pod_set.name): pod_set.gpu.mig_profile
        for row in rows
        for pod_set in _specs.decode(row["spec"]).pod_sets
        if pod_set.gpu.mig_profile
    }
