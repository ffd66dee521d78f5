"""The MIG profiles of each product: names, sizes and legal starts, by the name agents report.

Sources: names by mig-parted (config-default.yaml), starts by what NVML reports
(nvmlDeviceGetGpuInstancePossiblePlacements) on boards with eight and with four memory slots.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Final

from shared.core.model.mig.table import MigTable, Profile

_EIGHT: Final = (
    # class, compute, size, starts
    ("1g", 1, 1, (0, 1, 2, 3, 4, 5, 6)),
    ("1g-double", 1, 2, (0, 2, 4, 6)),
    ("2g", 2, 2, (0, 2, 4)),
    ("3g", 3, 4, (0, 4)),
    ("4g", 4, 4, (0,)),
    ("7g", 7, 8, (0,)),
)
_FOUR: Final = (
    ("1g", 1, 2, (0, 2, 4, 6)),
    ("2g", 2, 4, (0, 4)),
    ("4g", 4, 8, (0,)),
)
_EIGHT_NAMES: Final[dict[str, str]] = {
    # product: 1g, 1g with double memory, 2g, 3g, 4g, 7g (mig-parted, config-default.yaml)
    "A100-40": "1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb",
    "A100-80": "1g.10gb 1g.20gb 2g.20gb 3g.40gb|3g.39gb 4g.40gb|4g.39gb 7g.80gb|7g.79gb",
    "H100-80": "1g.10gb 1g.20gb 2g.20gb 3g.40gb|3g.39gb 4g.40gb|4g.39gb 7g.80gb|7g.79gb",
    "H100-94": "1g.12gb 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb",
    "H100-96": "1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb",
    "H200": "1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb",
    "GH200-144": "1g.18gb 1g.36gb 2g.36gb 3g.72gb 4g.72gb 7g.144gb",
    "B200": "1g.23gb 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb",
    "GB200": "1g.23gb 1g.47gb 2g.47gb 3g.93gb|3g.95gb 4g.93gb|4g.95gb 7g.186gb|7g.189gb",
    "B300": "1g.34gb 1g.67gb 2g.67gb 3g.135gb 4g.135gb 7g.269gb",
    "GB300": "1g.35gb 1g.70gb 2g.70gb 3g.139gb 4g.139gb 7g.278gb",
}
_FOUR_NAMES: Final[dict[str, str]] = {
    "A30": "1g.6gb 2g.12gb 4g.24gb",
    "RTX-PRO-6000": "1g.24gb 2g.48gb 4g.96gb",
}
_VARIANTS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    # With graphics, and without media engines: the same slices under other names.
    ("RTX-PRO-6000", "1g"): ("+gfx", "-me"),
    ("RTX-PRO-6000", "2g"): ("+gfx", "-me"),
    ("RTX-PRO-6000", "4g"): ("+gfx",),
}
"""Engines are not counted, so `+me.all`, which takes those of all slices, is not offered."""
_FAMILY: Final = re.compile(
    r"(GB300|GB200|B300|B200|GH200|H200|H100|H800|H20|A100|A800|A30|RTX.?PRO.?6000)(?![0-9X])"
)
_SIZE_GB: Final = re.compile(r"(?<![0-9])(40|80|94|96|141|144)(?: ?GB)?(?![0-9A-Z])")


def table_for(product: str, memory_mib: int) -> MigTable | None:
    """The table of a product name as agents report it, such as "NVIDIA-A100-SXM4-80GB".

    `memory_mib` of the GPU decides where the name leaves the size open. None: no MIG known.
    """
    name = product.upper().replace("_", "-")
    found = _FAMILY.search(name)
    if found is None:
        return None
    size = _SIZE_GB.search(name, found.end())
    size_gb = int(size.group(1)) if size else _nominal_gb(memory_mib)
    return _table(_canonical(found.group(1), size_gb, nvl="NVL" in name and size is None))


def _nominal_gb(memory_mib: int) -> int:
    """Gigabytes on the label: drivers report up to 3 % less than it."""
    for size_gb, limit_mib in ((40, 42_000), (80, 82_500), (94, 96_300), (96, 98_500)):
        if memory_mib <= limit_mib:
            return size_gb
    return 144


def _canonical(family: str, size_gb: int, *, nvl: bool) -> str:
    match family:
        case "A100" | "A800":
            return "A100-40" if size_gb == 40 else "A100-80"  # noqa: PLR2004
        case "H100" | "H800":
            if nvl or size_gb == 94:  # noqa: PLR2004
                return "H100-94"
            return "H100-96" if size_gb == 96 else "H100-80"  # noqa: PLR2004
        case "H20":
            return "H100-96" if size_gb <= 96 else "H200"  # noqa: PLR2004  # H20-3e: 141 GB
        case "GH200":
            return "H100-96" if size_gb <= 96 else "GH200-144"  # noqa: PLR2004
        case _:
            return "RTX-PRO-6000" if family.startswith("RTX") else family


@cache
def _table(product: str) -> MigTable:
    four = product in _FOUR_NAMES
    names = (_FOUR_NAMES if four else _EIGHT_NAMES)[product].split()
    profiles: dict[str, Profile] = {}
    for spellings, (kind, compute, size, starts) in zip(
        names, _FOUR if four else _EIGHT, strict=True
    ):
        first = spellings.split("|")[0]
        plain = Profile(name=first, compute=compute, size=size, starts=starts)
        for spelling in spellings.split("|"):
            profiles[spelling] = plain
        for variant in _VARIANTS.get((product, kind), ()):
            profiles[f"{first}{variant}"] = replace(plain, name=f"{first}{variant}")
        if kind == "1g" or (product == "A30" and kind == "2g"):
            profiles[f"{first}+me"] = Profile(
                name=f"{first}+me", compute=compute, size=size, starts=starts, media=True
            )
    return MigTable(product=product, profiles=profiles)
