"""The WHERE clause of a list of workloads, and its cursor. Pure; values are always bound."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from services.gateway.http.problems import invalid
from shared.core.admission.form import is_label
from shared.core.model.decision import FieldError
from shared.core.model.lifecycle import TERMINAL

LABELS_MAX: Final = 20
LABEL_RULE: Final = "must be key=value or key, such as sweep=42 or example.org/sweep"
IDS_MAX: Final = 100
ID_CHARACTERS: Final = 27
_ID_BEGIN: Final = re.compile(r"w[a-z0-9]{0,26}")
"""Digits go before letters in every collation, so that ids that begin so are one range."""
_ENDED: Final = frozenset(state.value for state in TERMINAL)


def cursor_of(row: Mapping[str, Any]) -> str:
    """The place behind `row` in the order of the list; opaque to callers."""
    return cursor_at(row["submitted_at_ms"], row["id"])


def cursor_at(time_ms: int, identifier: str) -> str:
    """The place behind an item of this time and identity."""
    text = f"{time_ms}:{identifier}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_of(cursor: str) -> tuple[int, str]:
    """Inverse of `cursor_of`; raises a 400 problem for anything else."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        time_text, _, identifier = text.partition(":")
        submitted_at_ms = int(time_text)
    except (binascii.Error, ValueError) as error:
        raise _bad_cursor(cursor) from error
    if not identifier or not identifier.isprintable() or not 0 <= submitted_at_ms < 1 << 62:
        raise _bad_cursor(cursor)
    return submitted_at_ms, identifier


def _bad_cursor(cursor: str) -> Exception:
    rule = "must be the next_cursor of the page before"
    return invalid([FieldError(field="cursor", value=cursor[:100], rule=rule)])


class _Where:
    """Conditions with `$1`, `$2`, ... and the values bound to them."""

    def __init__(self) -> None:
        self.conditions = ["true"]
        self.arguments: list[Any] = []

    def add(self, condition: str, *values: Any) -> None:  # noqa: ANN401  # any SQL values
        """One more condition; each `{}` stands for one of `values`."""
        first = len(self.arguments) + 1
        places = [f"${first + index}" for index in range(len(values))]
        self.arguments.extend(values)
        self.conditions.append(condition.format(*places))


def page_query(team: str | None, filters: Mapping[str, str], cursor: str) -> tuple[str, list[Any]]:
    """The condition and its arguments; `filters` by name of the query parameter."""
    where = _Where()
    if team is not None:
        where.add("w.team = {}", team)
    for name in ("queue", "kind", "name"):
        if name in filters:
            where.add(f"w.{name} = {{}}", filters[name])
    _add_states(where, filters.get("state", ""))
    _add_labels(where, filters.get("label", ""))
    _add_ids(where, filters.get("id", ""))
    if cursor:
        submitted_at_ms, identifier = place_of(cursor)
        where.add("w.submitted_at_ms <= {}", submitted_at_ms)
        where.add("(w.submitted_at_ms, w.id) < ({}, {})", submitted_at_ms, identifier)
    return " AND ".join(where.conditions), where.arguments


def _add_states(where: _Where, text: str) -> None:
    states = [one for one in text.split(",") if one]
    if states:
        where.add("w.state = ANY({}::text[])", states)
    if states and not _ENDED.intersection(states):
        where.add("w.live")


def _add_labels(where: _Where, text: str) -> None:
    """CASE hides how few the planner expects: it would read and sort all of them for a page."""
    equal, present = labels_of(text)
    if equal:
        body = msgspec.json.encode(equal).decode()
        where.add("CASE WHEN w.labels @> {}::jsonb THEN true ELSE false END", body)
    if present:
        where.add("CASE WHEN w.labels ?& {}::text[] THEN true ELSE false END", present)


def _add_ids(where: _Where, text: str) -> None:
    """Ids by the primary key; OFFSET keeps the planner from walking all of the newest instead."""
    asked = [one.strip() for one in text.split(",") if one.strip()]
    if len(asked) > IDS_MAX or not all(_ID_BEGIN.fullmatch(one) for one in asked):
        rule = f"must be up to {IDS_MAX} ids or their first characters, comma-separated"
        raise invalid([FieldError(field="id", value=text[:100], rule=rule)])
    if asked:
        first = [one.ljust(ID_CHARACTERS, "0") for one in asked]
        last = [one.ljust(ID_CHARACTERS, "z") for one in asked]
        where.add(
            "w.id IN (SELECT i.id FROM unnest({}::text[], {}::text[]) AS r(first, last),"
            " gateway.workload i WHERE i.id >= r.first AND i.id <= r.last OFFSET 0)",
            first,
            last,
        )


def labels_of(text: str) -> tuple[dict[str, str], list[str]]:
    """Labels that must be equal and labels that must be there, of "a=b,c".

    Raises:
        Problem: 400 for more than `LABELS_MAX`, for none before "=", and for two values of one.
    """
    equal: dict[str, str] = {}
    present: list[str] = []
    asked = [one.strip() for one in text.split(",") if one.strip()]
    if len(asked) > LABELS_MAX:
        raise _bad_label(text, f"must be at most {LABELS_MAX} labels")
    for one in asked:
        key, sign, value = one.partition("=")
        if not is_label(key, value):
            raise _bad_label(one, LABEL_RULE)
        if equal.get(key, value) != value and sign:
            raise _bad_label(text, f"must not ask for two values of {key}")
        if sign:
            equal[key] = value
        else:
            present.append(key)
    return equal, present


def _bad_label(value: str, rule: str) -> Exception:
    return invalid([FieldError(field="label", value=value[:100], rule=rule[:200])])
