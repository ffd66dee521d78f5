"""The hours in which a node may be taken down: days of the week, from and to, in a time zone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DAY_MINUTES: Final = 24 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingHours:
    """Open from `from_minute` (of the day) until before `to_minute`, on some days of the week."""

    zone: ZoneInfo
    days: frozenset[int]
    """0 is Monday; not empty."""
    from_minute: int
    to_minute: int

    def is_open(self, at: datetime) -> bool:
        """Whether they are on at a time, which has a zone of its own."""
        local = at.astimezone(self.zone)
        minute = local.hour * 60 + local.minute
        return local.weekday() in self.days and self.from_minute <= minute < self.to_minute

    def next_open(self, at: datetime) -> datetime:
        """When they begin next after `at`, in their own zone; `at` itself while they are on."""
        local = at.astimezone(self.zone)
        if self.is_open(at):
            return local
        for ahead in range(len(DAYS) + 1):
            begin = self._begin(local, ahead)
            if begin.weekday() in self.days and begin > local:
                return begin
        raise AssertionError("a week has every day, and one of them is open")

    def _begin(self, local: datetime, ahead: int) -> datetime:
        """On the day that is so far ahead; an hour that a change of clocks skips is the next."""
        day = local.date() + timedelta(days=ahead)
        hour, minute = divmod(self.from_minute, 60)
        begin = datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone)
        return begin.astimezone(UTC).astimezone(self.zone)


def minute_of(value: object) -> int | None:
    """The minute of the day of "10:30"; None if it is no time.

    YAML reads 10:30 without quotes as a number of base 60, which is the minute already.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value <= DAY_MINUTES else None
    match = (
        re.fullmatch(r"(\d{1,2}):([0-5]\d)", value, re.ASCII) if isinstance(value, str) else None
    )
    if match is None:
        return None
    minute = int(match[1]) * 60 + int(match[2])
    return minute if minute <= DAY_MINUTES else None
