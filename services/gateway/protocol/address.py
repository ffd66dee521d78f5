"""The address of a request: what any part of it may hold."""

from __future__ import annotations

import re
from typing import Final

from aiohttp import web

from services.gateway.http.problems import invalid
from services.gateway.http.route import NAME_LENGTH_MAX
from shared.core.model.decision import FieldError
from shared.events.strict import PRINTABLE

_printable: Final = re.compile(PRINTABLE).search
_surrogate: Final = re.compile("[\ud800-\udfff]").search
VALUE_LENGTH_MAX: Final = 100
"""Characters of a wrong value that are told back."""


def check_address(request: web.Request) -> None:
    """Refuse what no name can hold and no database could be asked for.

    Raises:
        Problem: 400 with every part or query parameter that breaks a rule.
    """
    errors = [
        _error(name, text, "must be printable characters")
        for name, text in (*request.match_info.items(), *request.query.items())
        if not (_is_printable(text) and _is_printable(name))
    ]
    errors += [
        _error(name, text, f"must be at most {NAME_LENGTH_MAX} characters")
        for name, text in request.match_info.items()
        if len(text) > NAME_LENGTH_MAX
    ]
    if errors:
        raise invalid(errors)


def _is_printable(text: str) -> bool:
    """Without control characters, and without half a character, which no database takes."""
    return bool(_printable(text)) and not _surrogate(text)


def _error(name: str, value: str, rule: str) -> FieldError:
    return FieldError(field=ascii(name)[1:-1], value=ascii(value[:VALUE_LENGTH_MAX]), rule=rule)
