"""Broken rules of a submission, collected; what was given is shown bounded and printable."""

from __future__ import annotations

import re
from typing import Final

from shared.core.model.decision import FieldError

ERRORS_MAX: Final = 50
SHOWN_MAX: Final = 100
_unsafe = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]").search


class Errors(list[FieldError]):
    """Broken rules, collected; silently bounded."""

    def add(self, field: str, value: object, rule: str, remedy: str = "") -> None:
        """One more, unless there are `ERRORS_MAX` already."""
        if len(self) < ERRORS_MAX:
            error = FieldError(field=field, value=shown(value), rule=rule, remedy=remedy)
            self.append(error)


def shown(value: object) -> str:
    """`value` as it may be printed anywhere: bounded, without control characters."""
    try:
        text = value if isinstance(value, str) else str(value)
    except ValueError:  # an integer of more than 4,300 digits
        return "(a huge number)"
    if len(text) > SHOWN_MAX:
        text = text[:SHOWN_MAX] + "..."
    return "".join(map(_escaped, text)) if _unsafe(text) else text


def _escaped(character: str) -> str:
    if not _unsafe(character):
        return character
    return f"\\u{ord(character):04x}"


def check_range(path: str, value: int | None, low: int, high: int, errors: Errors) -> None:
    """An integer that is given lies between `low` and `high`, both allowed."""
    if value is not None and not low <= value <= high:
        errors.add(path, value, f"must be {low} to {high}")
