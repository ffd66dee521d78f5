"""Quantities as Kubernetes writes them (`500m`, `1.5Gi`, `1e3`), exactly, as whole units.

What a node offers is rounded down, what a pod asks for is rounded up.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

MILLI: Final = Fraction(1, 1000)
ONE: Final = Fraction(1)
MIB: Final = Fraction(1 << 20)

_FORM: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?:[eE](?P<exponent>[+-]?[0-9]{1,2})|(?P<suffix>[KMGTPE]i|[numkMGTPE]))?"
)
_SUFFIXES: Final[dict[str, Fraction]] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "k": Fraction(10**3),
    **{name: Fraction(1000) ** power for power, name in enumerate("MGTPE", 2)},
    **{f"{name}i": Fraction(1024) ** power for power, name in enumerate("KMGTPE", 1)},
}
REMEMBERED_MAX: Final = 4_096


def at_most(text: str, unit: Fraction) -> int:
    """Whole units of `unit` in a quantity, rounded down.

    Raises:
        ValueError: it is no quantity; the message shows it.
    """
    return int(_amount(text) // unit)


def at_least(text: str, unit: Fraction) -> int:
    """Whole units of `unit` in a quantity, rounded up.

    Raises:
        ValueError: it is no quantity; the message shows it.
    """
    return int(-(-_amount(text) // unit))


@lru_cache(REMEMBERED_MAX)
def _amount(text: str) -> Fraction:
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no quantity of Kubernetes, such as 500m or 2Gi")
    number = Fraction(found["number"])
    if found["exponent"]:
        return number * Fraction(10) ** int(found["exponent"])
    return number * _SUFFIXES[found["suffix"]] if found["suffix"] else number
