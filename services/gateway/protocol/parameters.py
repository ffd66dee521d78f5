"""Query parameters and headers, held to what the table of routes says of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from aiohttp import web

from services.gateway.http.problems import invalid
from services.gateway.http.route import Parameter, Route
from shared.core.model.decision import FieldError

VALUE_LENGTH_MAX: Final = 100
"""Characters of a wrong value that are told back."""


class Parameters:
    """Those of one route."""

    def __init__(self, route: Route) -> None:
        self._parameters = route.parameters
        self._names = [one.name for one in route.parameters if one.place == "query"]
        self._knows_all = route.path.startswith("/v1/")
        """Probes and scrapers may say what they like."""

    def check(self, request: web.Request) -> None:
        """Refuse what would be passed over, or answered by a part of it.

        Raises:
            Problem: 400 with every parameter that breaks a rule.
        """
        errors = [*self._unknown(request), *self._broken(request)]
        if errors:
            raise invalid(errors)

    def _unknown(self, request: web.Request) -> Iterator[FieldError]:
        """A mistyped filter shows too much."""
        if not self._knows_all:
            return
        names = ", ".join(sorted(self._names)) or "none"
        rule = f"unknown query parameter; the route takes: {names}"
        for name in dict.fromkeys(request.query):
            if name not in self._names:
                yield _error(name, request.query[name], rule)

    def _broken(self, request: web.Request) -> Iterator[FieldError]:
        for one in self._parameters:
            values = request.query if one.place == "query" else request.headers
            given = values.getall(one.name, [])
            if len(given) > 1:
                yield _error(one.name, ", ".join(given), "must not be given twice")
            elif given and (rule := _rule_broken_by(one, given[0])):
                yield _error(one.name, given[0], rule)


def _rule_broken_by(one: Parameter, value: str) -> str:
    if len(value) > one.length_max:
        return f"must be at most {one.length_max} characters"
    if one.kind == "boolean" and value not in ("true", "false"):
        return "must be true or false"
    if one.choices and value not in one.choices:
        return one.rule or f"must be one of {', '.join(filter(None, one.choices))}"
    return one.rule if one.rule and not re.search(one.pattern, value) else ""


def _error(name: str, value: str, rule: str) -> FieldError:
    return FieldError(field=name[:VALUE_LENGTH_MAX], value=value[:VALUE_LENGTH_MAX], rule=rule)
