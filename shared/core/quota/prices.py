"""What an hour of one GPU costs: by flavor, way of buying it, and time, in whole micro-dollars.

A flavor has a price from when a version of it is applied, and others from days that it names.
A day that has passed counts from when the version is applied: nothing that was held before
changes its price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from shared.core.model.decision import FieldError
from shared.core.model.value import Value

PRICES_MAX: Final = 100
PRICE_RULE: Final = "must be at least 0"
_SINCE_RULE: Final = (
    "must be a day (UTC) such as 2026-12-01, or a time with its offset such as"
    " 2026-12-01T00:00:00+01:00"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Purchase(StrEnum):
    """How GPUs are paid for."""

    ON_DEMAND = "on-demand"
    """By the hour."""
    RESERVED = "reserved"
    """For a term, used or not."""
    SPOT = "spot"
    """By the hour, for as long as their owner leaves them."""
    OWNED = "owned"
    """Bought; the price is what the site charges itself."""


class DatedPrice(Value, frozen=True, kw_only=True):
    """What a GPU-hour of a flavor costs from a time on."""

    since: str
    """A day (UTC) such as 2026-12-01, or a time with its offset."""
    microdollars_per_gpu_hour: int
    """Price of a GPU-hour in millionths of a dollar."""
    purchase: Purchase | None = None
    """How the GPUs are paid for then; null: as the flavor says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What one GPU of a flavor costs for an hour, from `applied_at_ms` on."""

    version: int
    applied_at_ms: int
    microdollars_per_gpu_hour: int
    purchase: Purchase = Purchase.ON_DEMAND


UNPRICED: Final = Price(version=0, applied_at_ms=0, microdollars_per_gpu_hour=0)


def price_at(prices: Sequence[Price], at_ms: int) -> Price:
    """The price of what begins at `at_ms`: of the last version applied by then, the last.

    Before the first, the first; `UNPRICED` without any. Independent of the order of `prices`.
    """
    if not prices:
        return UNPRICED
    applied = [one for one in prices if one.applied_at_ms <= at_ms]
    return max(applied, key=_order) if applied else min(prices, key=_order)


def schedule(first: Price, dated: Sequence[DatedPrice]) -> list[Price]:
    """What a version says, the earliest first: `first`, and each of `dated` from its time on.

    Times before `first.applied_at_ms` count from then, the last of them in place of `first`.

    Raises:
        ValueError: a time that is none; `price_problems` names it.
    """
    found = [first]
    for since_ms, one in sorted(((since_ms_of(one.since), one) for one in dated), key=_by_time):
        price = replace(
            first,
            applied_at_ms=max(since_ms, first.applied_at_ms),
            microdollars_per_gpu_hour=one.microdollars_per_gpu_hour,
            purchase=one.purchase or first.purchase,
        )
        if since_ms <= first.applied_at_ms:
            found = [price]
        else:
            found.append(price)
    return found


def since_ms_of(text: str) -> int:
    """Unix milliseconds of a day (UTC) or of a time with its offset; raises ValueError."""
    moment = datetime.fromisoformat(text)
    if len(text) == len("2026-12-01"):
        moment = moment.replace(tzinfo=UTC)
    if moment.tzinfo is None:
        raise ValueError(_SINCE_RULE)
    passed = moment - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000 + passed.microseconds // 1_000


def purchase_of(purchase: Purchase | None, *, spot: bool) -> Purchase:
    """How a flavor is paid for that may not say so."""
    return purchase or (Purchase.SPOT if spot else Purchase.ON_DEMAND)


def price_problems(
    purchase: Purchase | None, dated: Sequence[DatedPrice], *, spot: bool
) -> list[FieldError]:
    """Every broken rule of how a flavor is paid for, by its field."""
    problems = _purchase_problems("purchase", purchase, spot=spot)
    if len(dated) > PRICES_MAX:
        problems.append(_problem("prices", len(dated), f"must be at most {PRICES_MAX} prices"))
    seen: set[int] = set()
    for index, one in enumerate(dated):
        field = f"prices[{index}]"
        problems += _purchase_problems(f"{field}.purchase", one.purchase, spot=spot)
        price = one.microdollars_per_gpu_hour
        if price < 0:
            problems.append(_problem(f"{field}.microdollars_per_gpu_hour", price, PRICE_RULE))
        rule = _since_rule(one.since, seen)
        if rule:
            problems.append(_problem(f"{field}.since", one.since, rule))
    return problems


def _since_rule(text: str, seen: set[int]) -> str:
    """What is wrong with a time, or ""; it is added to those that were seen."""
    try:
        since_ms = since_ms_of(text)
    except ValueError:
        return _SINCE_RULE
    if since_ms in seen:
        return "must be given once"
    seen.add(since_ms)
    return ""


def _purchase_problems(field: str, purchase: Purchase | None, *, spot: bool) -> list[FieldError]:
    """Spot nodes are paid for as such, and no others are."""
    if purchase is None or spot == (purchase is Purchase.SPOT):
        return []
    rule = "must be spot, as the flavor is" if spot else "must not be spot unless the flavor is"
    return [_problem(field, purchase.value, rule)]


def _problem(field: str, value: object, rule: str) -> FieldError:
    return FieldError(field=field, value=str(value), rule=rule)


def _order(one: Price) -> tuple[int, int]:
    return one.version, one.applied_at_ms


def _by_time(one: tuple[int, DatedPrice]) -> int:
    return one[0]
