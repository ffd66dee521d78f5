"""Reads untrusted JSON strictly, the same for HTTP bodies and for records of a team's topic.

Whatever could later poison the log or the database ends here: NUL, depth, duplicate keys, then
types, bounds and unknown fields by msgspec. Good input takes one short way, without a tree of
Python; only what was refused is read again, slowly, to tell each broken rule with its field path,
what was given and what is allowed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, TypeVar

import msgspec

from shared.core.model.decision import FieldError
from shared.events.broken_rules import (
    VALUE_LENGTH_MAX,
    broken_rules,
    fit_for_utf8,
    plain_rule,
)

__all__ = [
    "BODY_BYTES_MAX",
    "VALUE_LENGTH_MAX",
    "BadInput",
    "fit_for_utf8",
    "parse",
    "read_strictly",
]

BODY_BYTES_MAX: Final = 64 << 10
"""Of one submission."""
DEPTH_MAX: Final = 20
Decoded = TypeVar("Decoded")

_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
"""A string that is not closed reaches to the end: sought again from each of its quotes, 64 KiB of
escaped quotes took 24 s."""
_LEVELS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS: Final = bytes(sign for sign in range(256) if sign not in _LEVELS)


class BadInput(Exception):  # noqa: N818  # says what came in
    """`errors` has every broken rule, up to `ERRORS_MAX`; of what is no JSON at all, one."""

    def __init__(
        self,
        errors: Sequence[FieldError],
        detail: str = "",
        tree: Any = None,  # noqa: ANN401  # any JSON value
    ) -> None:
        first = f"{errors[0].field}: {errors[0].rule}" if errors else ""
        super().__init__(detail or first)
        self.errors = tuple(errors)
        self.tree = tree
        """What was read of it, where it is JSON."""


def read_strictly(body: bytes, decoder: msgspec.json.Decoder[Decoded]) -> Decoded:
    """The value of `body`; the type of `decoder` forbids unknown fields and holds no `Any`.

    Raises:
        BadInput: a rule is broken.
    """
    try:
        value = decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _explained(body, decoder, error) from error
    if not _surely_clean(body):
        parse(body)
    return value


def _surely_clean(body: bytes) -> bool:
    """Whether neither NUL nor a duplicate key can be in `body`, which is JSON.

    A key brings a colon, and those inside of texts stay when the body is written again: of a
    key given twice one goes, so that a colon is missing. Only an escape could hide that. How
    deep it may be nested is bounded by the type that it was decoded to.
    """
    if b"\\u" in body:
        return False
    again = msgspec.json.encode(msgspec.json.decode(body))
    return body.count(b":") == again.count(b":")


def _explained(body: bytes, decoder: msgspec.json.Decoder[Any], error: Exception) -> BadInput:
    try:
        tree = parse(body)
    except BadInput as bad:
        return bad
    if isinstance(error, msgspec.DecodeError):
        return BadInput(_errors(str(error), tree, decoder.type), tree=tree)
    return _malformed("must be JSON in UTF-8")


def _errors(text: str, tree: Any, type_: Any) -> Sequence[FieldError]:  # noqa: ANN401  # JSON, type
    """Every fault of `tree`; what the decoder said where a tree of Python seems right."""
    found = broken_rules(tree, type_)
    return found or [FieldError(field="", value="", rule=plain_rule(text))]


def parse(body: bytes) -> Any:  # noqa: ANN401  # any JSON value
    """The tree of `body`, without NUL, duplicate keys, or more than `DEPTH_MAX` levels.

    Raises:
        BadInput: it is no such JSON.
    """
    if b"\x00" in body or b"\\u0000" in body:
        raise _malformed("must not contain NUL")
    if body.count(b"[") + body.count(b"{") > DEPTH_MAX and _depth(body) > DEPTH_MAX:
        raise _malformed(f"must not be nested deeper than {DEPTH_MAX} levels")
    try:
        return json.loads(body, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"must be JSON: {error}") from error


def _malformed(rule: str) -> BadInput:
    return BadInput(_of_the_whole(rule), f"the body {rule}")


def _of_the_whole(rule: str) -> Sequence[FieldError]:
    return (FieldError(field="", value="", rule=rule),)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]  # None is falsy
        text = fit_for_utf8(twice[:VALUE_LENGTH_MAX])
        raise BadInput((FieldError(field=text, value=text, rule="must not be given twice"),))
    return result


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _depth(body: bytes) -> int:
    """Levels of nesting outside of strings; O(bytes), only for bodies with many brackets."""
    brackets = _STRING.sub(b"", body).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_LEVELS.__getitem__, brackets)), default=0)
