"""The MIG table of a board as its agent reports it; tables by product name only fill in.

NVML tells where each profile may begin (nvmlDeviceGetGpuInstancePossiblePlacements_v2), in memory
slices of the board: eight, or four on small ones. What it tells rules over
`core/model/mig/tables.py`. That gives names: drivers spell some profiles differently, and a
workload may use any spelling.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from shared.core.model.mig.table import MigTable, Profile
from shared.core.model.mig.tables import table_for
from shared.core.model.nouns import MigPlacements, Node
from shared.core.model.units import SLICES

Reported = tuple[tuple[str, int, int, tuple[int, ...]], ...]
"""(name, compute slices, size, starts) of each profile, in order of name; empty: not reported."""

TABLES_MAX: Final = 256
BOARD_SLICES: Final = (4, 8)
_ALL_ENGINES: Final = "+me.all"
"""Has the media engines of all slices, which are not counted: not offered."""


def reported_by(node: Node) -> Reported:
    """What the agent of `node` reports; the GPUs of a node are of one product."""
    placements = next((gpu.mig_placements for gpu in node.gpus if gpu.mig_placements), ())
    return tuple(sorted((one.profile, one.compute, one.size, one.starts) for one in placements))


@lru_cache(TABLES_MAX)
def table_of(product: str, gpu_memory_mib: int, reported: Reported = ()) -> MigTable | None:
    """The table of a board; None where it has no MIG."""
    known = table_for(product, gpu_memory_mib)
    if not reported:
        return known
    scale = SLICES // board_slices(reported)
    profiles = {
        name: Profile(
            name=name,
            compute=compute,
            size=size * scale,
            starts=tuple(start * scale for start in starts),
            media=name.endswith("+me"),
        )
        for name, compute, size, starts in reported
        if not name.endswith(_ALL_ENGINES)
    }
    for name, profile in known.profiles.items() if known is not None else ():
        alike = _alike(profile, tuple(profiles.values()))
        if alike is not None:
            profiles.setdefault(name, alike)
    return MigTable(product=product, profiles=profiles)


def board_slices(reported: Reported) -> int:
    """Memory slices of the board: as far as any placement reaches; 4 or 8 on real ones."""
    return max(max(starts) + size for _, _, size, starts in reported)


def problem_of(placements: tuple[MigPlacements, ...]) -> str:
    """What is wrong with a report, empty when nothing is."""
    names = [one.profile for one in placements]
    if len(set(names)) < len(names):
        return "mig_placements: a profile is named twice"
    for one in placements:
        if not one.profile or one.compute < 1 or one.size < 1 or not one.starts:
            return f"mig_placements[{one.profile!r}]: needs a name, compute, size and starts >= 1"
        if min(one.starts) < 0 or len(set(one.starts)) < len(one.starts):
            return f"mig_placements[{one.profile!r}].starts: must be distinct and >= 0"
    reach = max((max(one.starts) + one.size for one in placements), default=8)
    if reach not in BOARD_SLICES:
        return f"mig_placements: reach {reach} memory slices, a board has 4 or 8"
    return ""


def _alike(profile: Profile, reported: tuple[Profile, ...]) -> Profile | None:
    """The reported profile that `profile` is another spelling of."""
    same = (profile.compute, profile.size, profile.media)
    for one in reported:
        if (one.compute, one.size, one.media) == same:
            return one
    return None
