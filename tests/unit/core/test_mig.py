"""MIG positions against full enumeration and the published names."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shared.core.mig import MEDIA_BIT, MigTable, Profile, table_for

Layout = frozenset[tuple[str, int]]
A100_80 = "NVIDIA-A100-SXM4-80GB"
BASE = ("1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")


def table(product: str = A100_80, memory_mib: int = 81_920) -> MigTable:
    found = table_for(product, memory_mib)
    assert found is not None
    return found


def layouts(of: MigTable, names: Sequence[str]) -> dict[Layout, int]:
    """Every set of instances that can stand together, with its mask; by exhaustive growth."""
    known: dict[Layout, int] = {frozenset(): 0}
    queue = list(known)
    while queue:
        layout = queue.pop()
        for name in names:
            profile = of.profiles[name]
            for start in profile.legal_starts(known[layout]):
                grown = layout | {(name, start)}
                if grown not in known:
                    known[grown] = known[layout] | profile.mask(start)
                    queue.append(grown)
    return known


def maximal(of: MigTable, names: Sequence[str]) -> list[Layout]:
    return [
        layout
        for layout, mask in layouts(of, names).items()
        if not any(of.profiles[name].legal_starts(mask) for name in names)
    ]


def multisets(found: list[Layout]) -> int:
    return len({tuple(sorted(name for name, _ in layout)) for layout in found})


@pytest.mark.parametrize(
    ("product", "memory_mib", "names", "counts"),
    [
        (A100_80, 81_920, BASE, (298, 19, 14)),
        (A100_80, 81_920, (*BASE, "1g.20gb"), (723, 78, 38)),
        ("NVIDIA-A30", 24_576, ("1g.6gb", "2g.12gb", "4g.24gb"), (26, 5, 4)),
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
    found = layouts(of, (*BASE, "1g.20gb"))

    assert len(set(found.values())) == 192
    for layout in found:
        assert sum(of.profiles[name].compute for name, _ in layout) <= 7


@pytest.mark.parametrize("name", [*BASE, "1g.20gb"])
def test_the_best_start_costs_the_fewest_later_choices(name: str) -> None:
    of = table()
    profile = of.profiles[name]
    for state in range(256):
        best = of.best(state, name)
        starts = profile.legal_starts(state)
        assert of.room(state, name) == len(starts)
        if best is None:
            assert not starts
            continue
        left = {start: of.value(state | profile.mask(start)) for start in starts}
        assert left[best[1]] == max(left.values())


def test_a_3g_goes_high_so_that_a_4g_still_fits() -> None:
    of = table()

    best = of.best(0, "3g.40gb")

    assert best is not None
    assert best[1] == 4
    assert of.room(of.profiles["3g.40gb"].mask(4), "4g.40gb") == 1


def test_equal_starts_are_taken_from_the_top_by_1g_and_3g_and_from_the_bottom_by_others() -> None:
    of = table()
    for name in (*BASE, "1g.20gb"):
        profile = of.profiles[name]
        for state in range(256):
            best = of.best(state, name)
            if best is None:
                continue
            left = {
                start: of.value(state | profile.mask(start))
                for start in profile.legal_starts(state)
            }
            equal = [start for start, value in left.items() if value == left[best[1]]]
            assert best[1] == (max(equal) if profile.compute in {1, 3} else min(equal))


def test_of_two_gpus_that_lose_as_much_the_fuller_is_filled() -> None:
    of = table()
    offers = [(of.best(state, "1g.10gb"), state) for state in range(256)]
    known = [(best[0], state) for best, state in offers if best is not None]
    best_state = min(known)[1]

    assert best_state.bit_count() == 7


def test_counters_would_lie_where_the_mask_does_not() -> None:
    of = table()
    middle = of.profiles["2g.20gb"].mask(2)

    assert 8 - middle.bit_count() >= of.profiles["3g.40gb"].size
    assert of.profiles["3g.40gb"].legal_starts(middle) == (4,)
    assert of.profiles["4g.40gb"].legal_starts(middle) == ()


def test_one_instance_with_media_engines_for_each_gpu() -> None:
    of = table()
    media = of.profiles["1g.10gb+me"]

    state = media.occupy(0, 0)

    assert state & MEDIA_BIT
    assert media.legal_starts(state) == ()
    assert of.room(0, "1g.10gb+me") == 1
    assert of.best(state, "1g.10gb+me") is None
    assert of.room(state, "1g.10gb") == 6


def test_profiles_are_compared_by_what_they_are() -> None:
    assert Profile(name="x", compute=1, size=1, starts=(0,)).milli == 125
    assert table("A30", 24_000).profiles["4g.24gb"].milli == 1000
    assert table("A30", 24_000).profiles["2g.12gb+me"].media
    assert "2g.20gb+me" not in table().profiles


@pytest.mark.parametrize(
    ("product", "memory_mib", "canonical", "whole"),
    [
        ("NVIDIA-A100-SXM4-40GB", 40_960, "A100-40", "7g.40gb"),
        ("A100", 40_536, "A100-40", "7g.40gb"),
        ("A100-PCIE-80GB", 81_920, "A100-80", "7g.80gb"),
        ("A800-SXM4-80GB", 81_251, "A100-80", "7g.79gb"),
        ("NVIDIA H100 80GB HBM3", 81_559, "H100-80", "7g.80gb"),
        ("h100", 81_559, "H100-80", "7g.80gb"),
        ("NVIDIA_H800", 81_559, "H100-80", "7g.80gb"),
        ("NVIDIA H100 NVL", 95_830, "H100-94", "7g.94gb"),
        ("H100-94", 95_830, "H100-94", "7g.94gb"),
        ("NVIDIA H100 PCIe", 97_871, "H100-96", "7g.96gb"),
        ("H20", 97_871, "H100-96", "7g.96gb"),
        ("NVIDIA GH200 480GB", 97_871, "H100-96", "7g.96gb"),
        ("GH200-144G-HBM3e", 147_000, "GH200-144", "7g.144gb"),
        ("NVIDIA H200", 143_771, "H200", "7g.141gb"),
        ("NVIDIA B200", 183_359, "B200", "7g.180gb"),
        ("NVIDIA GB200", 189_471, "GB200", "7g.189gb"),
        ("NVIDIA B300", 275_040, "B300", "7g.269gb"),
        ("NVIDIA GB300", 284_208, "GB300", "7g.278gb"),
        ("NVIDIA RTX PRO 6000 Blackwell", 97_887, "RTX-PRO-6000", "4g.96gb"),
    ],
)
def test_products_are_known_by_the_names_agents_report(
    product: str, memory_mib: int, canonical: str, whole: str
) -> None:
    of = table(product, memory_mib)

    assert of.product == canonical
    assert of.profiles[whole].size == 8
    assert of.profiles[whole].mask(0) == 0xFF


@pytest.mark.parametrize("product", ["", "NVIDIA L4", "Tesla T4", "H2000", "A10", "V100"])
def test_a_product_without_mig_has_no_table(product: str) -> None:
    assert table_for(product, 81_920) is None
