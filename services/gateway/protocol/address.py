"""The address of a request and its headers, held to what the table of routes says of them."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from services.gateway.problems import invalid
from services.gateway.route import NAME_LENGTH_MAX, Route
from shared.core.decision import FieldError

VALUE_LENGTH_MAX: Final = 100
"""Characters of a wrong value that are told back."""


def check_address(request: web.Request, route: Route) -> None:
    """Refuse what no name can hold and no database could be asked for.

    Raises:
        Problem: 400 with every part, query parameter or header that breaks a rule.
    """
    errors = []
    if "%" in request.raw_path:
        errors = [
            _error(name, text, "must be printable characters")
            for name, text in (*request.match_info.items(), *request.query.items())
            if not text.isprintable() or not name.isprintable()
        ]
    errors += [
        _error(name, text, f"must be at most {NAME_LENGTH_MAX} characters")
        for name, text in request.match_info.items()
        if len(text) > NAME_LENGTH_MAX
    ]
    for one in route.parameters:
        given = request.query if one.place == "query" else request.headers
        if len(given.get(one.name, "")) > one.length_max:
            rule = f"must be at most {one.length_max} characters"
            errors.append(_error(one.name, given[one.name], rule))
    if errors:
        raise invalid(errors)


def _error(name: str, value: str, rule: str) -> FieldError:
    return FieldError(field=ascii(name)[1:-1], value=ascii(value[:VALUE_LENGTH_MAX]), rule=rule)
