"""MIG positions against full enumeration and the published names."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shared.core.model.mig.profiles import known_profiles, least_milli, profile_gigabytes
from shared.core.model.mig.table import MASK, MEDIA_BIT, MigTable, Profile, held, holders
from shared.core.model.mig.tables import table_for

Layout = frozenset[tuple[str, int]]
A100_80 = "NVIDIA-A100-SXM4-80GB"
BASE = ("1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
ALL = (*BASE, "1g.20gb")


def table(product: str = A100_80, memory_mib: int = 81_920) -> MigTable:
    found = table_for(product, memory_mib)
    assert found is not None
    return found


def layouts(of: MigTable, names: Sequence[str]) -> dict[Layout, int]:
    """Every set of instances that can stand together, with its state; by exhaustive growth."""
    known: dict[Layout, int] = {frozenset(): 0}
    queue = list(known)
    while queue:
        layout = queue.pop()
        for name in names:
            profile = of.profiles[name]
            for start in profile.legal_starts(known[layout]):
                grown = layout | {(name, start)}
                if grown not in known:
                    known[grown] = profile.occupy(known[layout], start)
                    queue.append(grown)
    return known


def maximal(of: MigTable, names: Sequence[str]) -> list[Layout]:
    return [
        layout
        for layout, state in layouts(of, names).items()
        if not any(of.profiles[name].legal_starts(state) for name in names)
    ]


def multisets(found: list[Layout]) -> int:
    return len({tuple(sorted(name for name, _ in layout)) for layout in found})


# ── layouts ──


@pytest.mark.parametrize(
    ("product", "memory_mib", "names", "counts"),
    [
        (A100_80, 81_920, BASE, (298, 19, 14)),
        (A100_80, 81_920, ALL, (723, 78, 38)),
        ("NVIDIA-A30", 24_576, ("1g.6gb", "2g.12gb", "4g.24gb"), (26, 5, 4)),
        ("NVIDIA RTX PRO 6000", 97_887, ("1g.24gb", "2g.48gb", "4g.96gb"), (26, 5, 4)),
    ],
)
def test_the_table_allows_exactly_the_layouts_of_the_hardware(
    product: str, memory_mib: int, names: Sequence[str], counts: tuple[int, int, int]
) -> None:
    of = table(product, memory_mib)
    largest = maximal(of, names)

    assert (len(layouts(of, names)), len(largest), multisets(largest)) == counts


def test_192_masks_can_come_about_and_compute_slices_never_bind_beyond_them() -> None:
    of = table()
    found = layouts(of, ALL)

    assert len({state & MASK for state in found.values()}) == 192
    for layout in found:
        assert sum(of.profiles[name].compute for name, _ in layout) <= 7


def test_a_state_tells_its_holders_apart() -> None:
    of = table()

    for layout, state in layouts(of, ALL).items():
        assert sorted(of.profiles[name].mask(start) for name, start in layout) == sorted(
            holders(state)
        )


def test_slices_of_one_holder_are_one_however_many_instances_they_are() -> None:
    assert holders(held(0b0000_1111, media=False)) == (0b0000_1111,)
    assert holders(held(0b1100_0011, media=True)) == (0b0000_0011, 0b1100_0000)
    assert held(0, media=False) == 0


def test_counters_would_lie_where_the_mask_does_not() -> None:
    of = table()
    middle = of.profiles["2g.20gb"].occupy(0, 2)

    assert 8 - (middle & MASK).bit_count() >= of.profiles["3g.40gb"].size
    assert of.profiles["3g.40gb"].legal_starts(middle) == (4,)
    assert of.profiles["4g.40gb"].legal_starts(middle) == ()


def test_the_room_of_a_state_is_its_legal_starts() -> None:
    of = table()

    for state in layouts(of, ALL).values():
        for name in ALL:
            assert of.room(state, name) == len(of.profiles[name].legal_starts(state))


def test_one_instance_with_media_engines_for_each_gpu() -> None:
    of = table()
    media = of.profiles["1g.10gb+me"]

    state = media.occupy(0, 0)

    assert state & MEDIA_BIT
    assert media.legal_starts(state) == ()
    assert of.room(0, "1g.10gb+me") == 1
    assert of.moves(state, "1g.10gb+me") == ()
    assert of.room(state, "1g.10gb") == 6


# ── worth ──


def test_an_empty_gpu_is_worth_all_it_holds() -> None:
    of = table()

    assert [profile.name for profile in of.plain] == [
        "1g.10gb",
        "1g.20gb",
        "2g.20gb",
        "3g.40gb",
        "4g.40gb",
        "7g.80gb",
    ]
    assert of.worth(0) == (7000, 4000, 3000, 2000, 1000, 1000)


def test_a_start_counts_a_tenth_for_every_holder_in_its_way() -> None:
    of = table()
    large = of.profiles["4g.40gb"].occupy(0, 0)
    small = 0
    for start in range(4):
        small = of.profiles["1g.10gb"].occupy(small, start)

    # 4g and 7g have one start, under which lies one holder, or four.
    assert of.worth(large)[4:] == (100, 100)
    assert of.worth(small)[4:] == (0, 0)
    # Each start of a 1g is under one holder either way.
    assert of.worth(large)[0] == of.worth(small)[0] == 3000 + 4 * 100


@pytest.mark.parametrize("name", ALL)
def test_a_move_loses_what_the_state_after_it_is_worth_less(name: str) -> None:
    of = table()
    profile = of.profiles[name]
    for state in layouts(of, ALL).values():
        moves = of.moves(state, name)
        assert tuple(move.start for move in moves) == profile.legal_starts(state)
        for move in moves:
            after = of.worth(profile.occupy(state, move.start))
            assert tuple(map(sum, zip(after, move.loss, strict=True))) == of.worth(state)
            assert min(move.loss) >= 0


def test_ties_go_to_the_fuller_gpu_then_1g_and_3g_high_and_others_low() -> None:
    of = table()

    def order(state: int, name: str) -> list[int]:
        return [move.start for move in sorted(of.moves(state, name), key=lambda move: move.tie)]

    assert order(0, "1g.10gb") == [6, 5, 4, 3, 2, 1, 0]
    assert order(0, "3g.40gb") == [4, 0]
    assert order(0, "2g.20gb") == [0, 2, 4]
    fuller = of.profiles["1g.10gb"].occupy(0, 0)
    assert max(move.tie for move in of.moves(fuller, "2g.20gb")) < min(
        move.tie for move in of.moves(0, "2g.20gb")
    )


# ── products ──


def test_profiles_are_compared_by_what_they_are() -> None:
    assert Profile(name="x", compute=1, size=1, starts=(0,)).milli == 125
    assert table("A30", 24_000).profiles["4g.24gb"].milli == 1000
    assert table("A30", 24_000).profiles["2g.12gb+me"].media
    assert "2g.20gb+me" not in table().profiles
    assert table().plain_number("1g.10gb+me") == table().plain_number("1g.10gb")


@pytest.mark.parametrize(
    ("product", "memory_mib", "canonical", "names"),
    [
        ("NVIDIA-A100-SXM4-40GB", 40_960, "A100-40", "1g.5gb 1g.10gb 2g.10gb 3g.20gb 7g.40gb"),
        ("A100", 40_536, "A100-40", "4g.20gb"),
        ("A100-PCIE-80GB", 81_920, "A100-80", "1g.10gb 1g.20gb 2g.20gb 3g.40gb 7g.80gb"),
        ("A800-SXM4-80GB", 81_251, "A100-80", "7g.79gb"),
        ("NVIDIA H100 80GB HBM3", 81_559, "H100-80", "1g.10gb 3g.39gb 4g.40gb 7g.80gb"),
        ("h100", 81_559, "H100-80", "7g.80gb"),
        ("NVIDIA_H800", 81_559, "H100-80", "7g.80gb"),
        ("NVIDIA H100 NVL", 95_830, "H100-94", "1g.12gb 2g.24gb 3g.47gb 7g.94gb"),
        ("H100-94", 95_830, "H100-94", "7g.94gb"),
        ("NVIDIA H100 PCIe", 97_871, "H100-96", "1g.12gb 1g.24gb 3g.48gb 7g.96gb"),
        ("H20", 97_871, "H100-96", "7g.96gb"),
        ("NVIDIA-H20-3e", 143_771, "H200", "1g.18gb 1g.35gb 3g.71gb 7g.141gb"),
        ("NVIDIA GH200 480GB", 97_871, "H100-96", "7g.96gb"),
        ("GH200-144G-HBM3e", 147_000, "GH200-144", "1g.18gb 1g.36gb 7g.144gb"),
        ("NVIDIA H200", 143_771, "H200", "1g.18gb 1g.35gb 3g.71gb 7g.141gb"),
        ("NVIDIA B200", 183_359, "B200", "1g.23gb 1g.45gb 3g.90gb 7g.180gb"),
        ("NVIDIA GB200", 189_471, "GB200", "1g.47gb 3g.93gb 3g.95gb 7g.189gb"),
        ("NVIDIA B300", 275_040, "B300", "1g.34gb 7g.269gb"),
        ("NVIDIA GB300", 284_208, "GB300", "1g.35gb 7g.278gb"),
        (
            "NVIDIA RTX PRO 6000 Blackwell",
            97_887,
            "RTX-PRO-6000",
            "1g.24gb-me 2g.48gb+gfx 4g.96gb",
        ),
    ],
)
def test_products_are_known_by_the_names_agents_report(
    product: str, memory_mib: int, canonical: str, names: str
) -> None:
    of = table(product, memory_mib)

    assert of.product == canonical
    assert set(names.split()) <= of.profiles.keys()
    largest = max(of.profiles.values(), key=lambda profile: profile.size)
    assert largest.mask(0) == 0xFF


@pytest.mark.parametrize("product", ["", "NVIDIA L4", "Tesla T4", "H2000", "A10", "V100"])
def test_a_product_without_mig_has_no_table(product: str) -> None:
    assert table_for(product, 81_920) is None


@pytest.mark.parametrize(
    ("name", "milli"),
    [
        ("1g.10gb", 125),
        ("1g.24gb", 250),
        ("2g.48gb", 500),
        ("2g.48gb+gfx", 500),
        ("4g.96gb", 1000),
        ("4g.24gb", 1000),
        ("3g.39gb", 500),
        ("7g.94gb", 1000),
    ],
)
def test_quota_counts_a_profile_as_placement_does(name: str, milli: int) -> None:
    assert least_milli(name) == milli


def test_no_profile_has_no_amount() -> None:
    with pytest.raises(KeyError):
        least_milli("9g.1gb")


def test_the_memory_of_a_profile_is_in_its_name() -> None:
    assert all(profile_gigabytes(name) > 0 for name in known_profiles())
    assert profile_gigabytes("1g.24gb-me") == 24
    assert profile_gigabytes("large") == 0
