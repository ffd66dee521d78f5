"""MIG instances of a device by profile: how many are held, and how many more there is room for.

Room is by exact position (core/model/mig/table.py), of each profile as if it came alone: on an
empty A100-80GB seven of 1g.10gb or two of 3g.40gb fit, not both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from services.gateway.fleet.held import Held, Hold
from services.gateway.fleet.views import MigProfileUse
from shared.core.model.mig.reported import reported_by, table_of
from shared.core.model.mig.table import MigTable, Profile, held
from shared.core.model.nouns import Gpu, Node


def of_device(node: Node, gpu: Gpu, holds: Held, *, usable: bool) -> tuple[MigProfileUse, ...]:
    """Profiles of one device, the smallest first; none unless it is in MIG mode.

    A device that is not `usable` has no room.
    """
    table = table_of(node.product, gpu.memory_mib, reported_by(node)) if gpu.mig else None
    if table is None:
        return ()
    state, used = 0, Counter[str]()
    for one in holds.of(node.name, gpu.index):
        name = holds.profile(one)
        state |= held(one.mask, media=name.endswith("+me"))
        profile = table.profiles.get(name) or _of_size(table, one)
        if profile is not None:
            used[name or profile.name] += one.mask.bit_count() // profile.size
    names = [profile.name for profile in table.plain]
    names += sorted(used.keys() - set(names))
    return tuple(
        MigProfileUse(profile=name, used=used[name], free=table.room(state, name) if usable else 0)
        for name in names
    )


def sum_of(parts: Iterable[Sequence[MigProfileUse]]) -> tuple[MigProfileUse, ...]:
    """The same of several devices, in the order of the profiles of each."""
    used: Counter[str] = Counter()
    free: Counter[str] = Counter()
    for part in parts:
        for one in part:
            used[one.profile] += one.used
            free[one.profile] += one.free
    return tuple(MigProfileUse(profile=name, used=used[name], free=free[name]) for name in used)


def _of_size(table: MigTable, hold: Hold) -> Profile | None:
    """What an unknown submission holds, where a single profile has this size; None: unknown."""
    size = hold.mask.bit_count()
    fitting = [profile for profile in table.plain if profile.size == size]
    return fitting[0] if len(fitting) == 1 else None
