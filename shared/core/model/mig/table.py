"""MIG by exact position: which instances a GPU can take, and what each of them costs later ones.

Positions are counted in eighths of a board's memory (a 4-slot board counts each slot twice), so a
whole GPU is always 0xFF. Counters are not enough: of all legal layouts with room for a 3g by sums,
three quarters have no legal start free. So every GPU keeps its `state`:

- bits 0-7: busy slices. The 7 compute slices never bind beyond them;
- bit 8: an instance with media engines (`+me`) lives there, of which a GPU has one at most;
- bits 9-16: slices at which a holder begins. They tell a 4g from four 1g: the place of the one is
  free again when one pod ends, that of the others when four do.

The worth of a state to a profile is what it can take of it, now or soon: each legal start counts 1
if free, and a tenth for every holder in its way. Where an instance goes is decided by what its
place is worth to the profiles that are asked for (core/scoring/mig_pool.py); tables of products
are in core/model/mig/tables.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from shared.core.model.units import GPU_MILLI, SLICES

MEDIA_BIT: Final = 1 << SLICES
"""Set in the state of a GPU on which an instance with media engines lives."""
MASK: Final = MEDIA_BIT - 1
BEGIN_SHIFT: Final = SLICES + 1
WORTH: Final = (1000, 100, 10, 1)
"""In thousandths, of a start by the number of holders in its way; more of them leave nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A kind of instance; `size` and `starts` in eighths of the memory, `compute` in g."""

    name: str
    compute: int
    size: int
    starts: tuple[int, ...]
    media: bool = False

    @property
    def milli(self) -> int:
        """What quota counts."""
        return self.size * GPU_MILLI // SLICES

    def mask(self, start: int) -> int:
        """The slices of an instance at `start`."""
        return ((1 << self.size) - 1) << start

    def occupy(self, state: int, start: int) -> int:
        """The state after an instance began at `start`."""
        return state | held(self.mask(start), media=self.media)

    def legal_starts(self, state: int) -> tuple[int, ...]:
        """Where another instance may begin on a GPU in `state`; each of them, alone."""
        if self.media and state & MEDIA_BIT:
            return ()
        return tuple(start for start in self.starts if not self.mask(start) & state)


def held(mask: int, *, media: bool) -> int:
    """What one holder of the slices in `mask` adds to a state."""
    begins = mask & ~(mask << 1)
    return mask | begins << BEGIN_SHIFT | (MEDIA_BIT if media else 0)


def holders(state: int) -> tuple[int, ...]:
    """The slices of each holder, as masks from the lowest up."""
    found: list[int] = []
    for start in range(SLICES):
        bit = 1 << start
        if state & bit << BEGIN_SHIFT:
            found.append(bit)
        elif state & bit:
            found[-1] |= bit
    return tuple(found)


class MigOption(NamedTuple):
    """One way to put an instance on a GPU, with what it takes from others."""

    start: int
    loss: tuple[int, ...]
    """Worth lost, by plain profile of the table."""
    tie: int
    """Smaller is better among moves of equal cost: the fuller GPU, then HAMi's order of starts."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MigTable:
    """The profiles of one product, by name (other spellings included)."""

    product: str
    profiles: dict[str, Profile]

    def room(self, state: int, name: str) -> int:
        """How many instances of `name` a GPU in `state` can still take.

        Exact, as the starts of one profile never overlap each other.
        """
        return _rooms(self, name)[state & (MASK | MEDIA_BIT)]

    @property
    def plain(self) -> tuple[Profile, ...]:
        """Profiles that differ in size or place, the smallest first; media engines left out."""
        return _plain(self)

    def plain_number(self, name: str) -> int:
        """Which of `plain` has the geometry of profile `name`."""
        return _plain_numbers(self)[name]

    def worth(self, state: int) -> tuple[int, ...]:
        """What a GPU in `state` is worth to each of `plain`, in thousandths of an instance."""
        return _worth(self, state)

    def moves(self, state: int, name: str) -> tuple[MigOption, ...]:
        """Every legal way to put an instance of `name` on a GPU in `state`."""
        return _moves(self, state, name)


@cache
def _plain(table: MigTable) -> tuple[Profile, ...]:
    shapes: dict[tuple[int, int, tuple[int, ...]], Profile] = {}
    for profile in table.profiles.values():
        if not profile.media:
            shapes.setdefault((profile.size, profile.compute, profile.starts), profile)
    return tuple(shapes[shape] for shape in sorted(shapes))


@cache
def _plain_numbers(table: MigTable) -> dict[str, int]:
    shapes = [(plain.size, plain.compute, plain.starts) for plain in table.plain]
    return {
        name: shapes.index((profile.size, profile.compute, profile.starts))
        for name, profile in table.profiles.items()
    }


@cache
def _rooms(table: MigTable, name: str) -> tuple[int, ...]:
    profile = table.profiles[name]
    most = 1 if profile.media else SLICES
    return tuple(min(len(profile.legal_starts(state)), most) for state in range(2 * MEDIA_BIT))


@cache
def _worth(table: MigTable, state: int) -> tuple[int, ...]:
    masks = holders(state)
    return tuple(
        sum(_worth_of_start(profile.mask(start), masks) for start in profile.starts)
        for profile in table.plain
    )


def _worth_of_start(wanted: int, masks: tuple[int, ...]) -> int:
    in_the_way = sum(1 for mask in masks if mask & wanted)
    return WORTH[in_the_way] if in_the_way < len(WORTH) else 0


@cache
def _moves(table: MigTable, state: int, name: str) -> tuple[MigOption, ...]:
    profile = table.profiles[name]
    before = table.worth(state)
    free = SLICES - (state & MASK).bit_count()
    return tuple(
        MigOption(
            start=start,
            loss=tuple(
                was - left
                for was, left in zip(
                    before, table.worth(profile.occupy(state, start)), strict=True
                )
            ),
            tie=2 * SLICES * free + (SLICES - start if profile.compute in {1, 3} else start),
        )
        for start in profile.legal_starts(state)
    )
