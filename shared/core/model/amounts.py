"""Amounts as people read them, and the words of a quota refusal (mission A7)."""

from __future__ import annotations

from collections.abc import Iterable

from shared.core.model.units import GPU_MILLI, UNLIMITED, Resources

Amount = tuple[int, int, int]
"""Milli-GPU, milli-CPU, MiB: `Resources` where a million of them are compared."""

UNITS = ("gpu", "cpu", "memory")
FIELDS = ("gpu_milli", "cpu_milli", "memory_mib")


def amount(resources: Resources) -> Amount:
    """The plain tuple of `resources`."""
    return resources.gpu_milli, resources.cpu_milli, resources.memory_mib


def resources(plain: Amount) -> Resources:
    """The noun of a plain tuple."""
    return Resources(gpu_milli=plain[0], cpu_milli=plain[1], memory_mib=plain[2])


def times(plain: Amount, number: int) -> Amount:
    """So often an amount; -1 takes it off."""
    return plain if number == 1 else (plain[0] * number, plain[1] * number, plain[2] * number)


def text(unit: str, value: int) -> str:
    """One amount in its unit: `gpu=0.5`, `cpu=4`, `memory=16384Mi`, `gpu=unlimited`."""
    if value >= UNLIMITED:
        return f"{unit}=unlimited"
    if unit == "memory":
        return f"{unit}={value}Mi"
    whole, part = divmod(value, GPU_MILLI)
    return f"{unit}={whole}" if not part else f"{unit}={value / GPU_MILLI:g}"


def exceeded(name: str, requested: Amount, used: Amount, limited: Amount) -> str:
    """The words of Kubernetes' ResourceQuota, for the units that are exceeded; "" for none.

    `exceeded quota: team-fraud, requested: gpu=1, used: gpu=4, limited: gpu=4`
    """
    short = short_units(requested, used, limited)
    if not short:
        return ""
    asked, taken, most = (told_units(one, short) for one in (requested, used, limited))
    return f"exceeded quota: {name}, requested: {asked}, used: {taken}, limited: {most}"


def short_units(requested: Amount, used: Amount, limited: Amount) -> list[int]:
    """Indexes of the units in which `requested` beside `used` is more than `limited`."""
    return [
        index
        for index in range(len(UNITS))
        if requested[index] and used[index] + requested[index] > limited[index] < UNLIMITED
    ]


def told_units(amounts: Amount, units: Iterable[int]) -> str:
    """These units of an amount: `gpu=1,cpu=4`."""
    return ",".join(text(UNITS[index], amounts[index]) for index in units)


def fits(requested: Amount, used: Amount, limited: Amount) -> bool:
    """Whether `requested` beside `used` stays within `limited`.

    A unit that is not requested is never in the way, even when it is over its limit already.
    """
    return (
        (not requested[0] or used[0] + requested[0] <= limited[0] or limited[0] >= UNLIMITED)
        and (not requested[1] or used[1] + requested[1] <= limited[1] or limited[1] >= UNLIMITED)
        and (not requested[2] or used[2] + requested[2] <= limited[2] or limited[2] >= UNLIMITED)
    )
