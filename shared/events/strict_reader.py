"""Reads untrusted JSON strictly, the same for HTTP bodies and for records of a team's topic.

Whatever could later poison the log or the database ends here: NUL, depth, duplicate keys, then
types, bounds and unknown fields by msgspec. Good input takes one short way, without a tree of
Python; only what was refused is read again, slowly, to tell each broken rule with its field path,
what was given and what is allowed (reliability.md S19).
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, islice
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from shared.core.decision import FieldError
from shared.events.strict import PRINTABLE

BODY_BYTES_MAX: Final = 64 << 10
"""Of one submission."""
DEPTH_MAX: Final = 20
VALUE_LENGTH_MAX: Final = 120
ERRORS_MAX: Final = 50
NEAREST_MAX: Final = 10
"""Unknown fields for which the nearest name is looked for: it takes about 0.3 ms each."""
NEAREST_LENGTH_MAX: Final = 63
Decoded = TypeVar("Decoded")

_PATH = re.compile(r"^(?P<rule>.*?)(?: - at `(?P<key>key in )?\$?(?P<path>.*?)`)?$", re.DOTALL)
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
"""One that nobody closes reaches to the end: sought again from each of its quotes, 64 KiB of
escaped quotes took 24 s."""
_LEVELS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS: Final = bytes(sign for sign in range(256) if sign not in _LEVELS)
_UNKNOWN: Final = "Object contains unknown field"
_MISSING: Final = "Object missing required field"
_NOT_PRINTABLE: Final = f"Expected `str` matching regex {PRINTABLE!r}"


class BadInput(Exception):  # noqa: N818  # says what came in
    """`errors` has every unknown field, every missing one, or the first other broken rule."""

    def __init__(self, errors: Sequence[FieldError], detail: str = "") -> None:
        first = f"{errors[0].field}: {errors[0].rule}" if errors else ""
        super().__init__(detail or first)
        self.errors = tuple(errors)


def read_strictly(body: bytes, decoder: msgspec.json.Decoder[Decoded]) -> Decoded:
    """The value of `body`; the type of `decoder` forbids unknown fields and holds no `Any`.

    Raises:
        BadInput: a rule is broken.
    """
    try:
        value = decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(*_explain(body, decoder, error)) from error
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


def _explain(
    body: bytes, decoder: msgspec.json.Decoder[Any], error: Exception
) -> tuple[Sequence[FieldError], str]:
    try:
        tree = parse(body)
    except BadInput as bad:
        return bad.errors, str(bad)
    if isinstance(error, msgspec.DecodeError):
        return _errors(str(error), tree, decoder.type), ""
    rule = "must be JSON in UTF-8"
    return _of_the_whole(rule), f"the body {rule}"


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


def fit_for_utf8(text: str) -> str:
    r"""`text` as it can be sent: a lone surrogate, which no UTF-8 has, is written as `\udcff`."""
    return text.encode("utf-8", "backslashreplace").decode()


def _malformed(rule: str) -> BadInput:
    return BadInput(_of_the_whole(rule), f"the body {rule}")


def _of_the_whole(rule: str) -> Sequence[FieldError]:
    return (FieldError(field="", value="", rule=rule),)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]  # None is falsy
        text = _printable(twice)
        raise BadInput((FieldError(field=text, value=text, rule="must not be given twice"),))
    return result


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _depth(body: bytes) -> int:
    """Levels of nesting outside of strings; O(bytes), only for bodies with many brackets."""
    brackets = _STRING.sub(b"", body).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_LEVELS.__getitem__, brackets)), default=0)


def _errors(text: str, tree: Any, type_: Any) -> Sequence[FieldError]:  # noqa: ANN401  # JSON, type
    if text.startswith(_UNKNOWN):
        info, homes = _known_of(type_)
        found = _unknown_fields(tree, info, "")
        return _with_hint(list(islice(found, ERRORS_MAX)), homes)
    match = _PATH.match(text)
    rule, path = (match["rule"], match["path"] or "") if match else (text, "")
    if rule.startswith(_MISSING):
        info, _ = _known_of(type_)
        missing = islice(_missing_fields(tree, info, ""), ERRORS_MAX)
        return [FieldError(field=name, value="", rule="is required") for name in missing]
    if rule == _NOT_PRINTABLE:
        rule = "must be printable characters"
    if rule.startswith("Invalid enum value"):
        rule = f"must be one of {', '.join(_choices(inspect.type_info(type_), path))}"
    return [FieldError(field=_plain(path), value=_value_at(tree, path), rule=rule)]


def _plain(path: str) -> str:
    return path.removeprefix("$").removeprefix(".")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _value_at(tree: Any, path: str) -> str:  # noqa: ANN401  # any JSON value
    """What the caller gave at `path`, shortened; empty where the path has a wild card."""
    for name, index in re.findall(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]", path):
        try:
            tree = tree[name] if name else tree[int(index)]
        except (KeyError, IndexError, TypeError, ValueError):
            return ""
    return json.dumps(tree)[:VALUE_LENGTH_MAX]


def _choices(info: inspect.Type, path: str) -> list[str]:
    """The values of the enum at `path` of a type."""
    for name, _ in re.findall(r"\.([^.\[]+)|(\[)", path):
        info = next((one for one in _inside(info, name)), inspect.AnyType())
    return [
        one.value
        for kind in _kinds(info)
        if isinstance(kind, inspect.EnumType)
        for one in kind.cls
    ]


def _kinds(info: inspect.Type) -> list[inspect.Type]:
    if isinstance(info, inspect.Metadata):
        return _kinds(info.type)
    if isinstance(info, inspect.UnionType):
        return [one for kind in info.types for one in _kinds(kind)]
    return [info]


def _inside(info: inspect.Type, name: str) -> list[inspect.Type]:
    found: list[inspect.Type] = []
    for kind in _kinds(info):
        if isinstance(kind, inspect.StructType):
            found += [field.type for field in kind.fields if field.encode_name == name]
        elif isinstance(kind, inspect.VarTupleType | inspect.ListType) and not name:
            found.append(kind.item_type)
    return found


class _Unknown(NamedTuple):
    """A field that nobody knows, among those that are known there."""

    path: str
    name: str
    value: Any
    known: Sequence[str]


def _unknown_fields(tree: Any, info: inspect.Type, path: str) -> Iterator[_Unknown]:  # noqa: ANN401  # any JSON value
    for kind in _kinds(info):
        if isinstance(kind, inspect.StructType) and isinstance(tree, dict):
            known = {field.encode_name: field.type for field in kind.fields}
            for name, value in tree.items():
                if name in known:
                    yield from _unknown_fields(value, known[name], _join(path, name))
                else:
                    yield _Unknown(_join(path, name), name, value, tuple(known))
        elif isinstance(kind, inspect.VarTupleType | inspect.ListType) and isinstance(tree, list):
            for index, item in enumerate(tree):
                yield from _unknown_fields(item, kind.item_type, f"{path}[{index}]")


def _missing_fields(tree: Any, info: inspect.Type, path: str) -> Iterator[str]:  # noqa: ANN401  # any JSON value
    """Paths of the required fields that `tree` does not give, in the order of the type."""
    for kind in _kinds(info):
        if isinstance(kind, inspect.StructType) and isinstance(tree, dict):
            for field in kind.fields:
                below = _join(path, field.encode_name)
                if field.encode_name in tree:
                    yield from _missing_fields(tree[field.encode_name], field.type, below)
                elif field.required:
                    yield below
        elif isinstance(kind, inspect.VarTupleType | inspect.ListType) and isinstance(tree, list):
            for index, item in enumerate(tree):
                yield from _missing_fields(item, kind.item_type, f"{path}[{index}]")


def _with_hint(unknown: Sequence[_Unknown], homes: Mapping[str, str]) -> list[FieldError]:
    errors = []
    for index, one in enumerate(unknown):
        rule = "unknown field"
        if index < NEAREST_MAX:
            rule = f"unknown field; {_hint(one, homes)}"
        value = json.dumps(one.value)[:VALUE_LENGTH_MAX]
        errors.append(FieldError(field=_printable(one.path), value=value, rule=rule))
    return errors


def _hint(one: _Unknown, homes: Mapping[str, str]) -> str:
    longer = next((known for known in one.known if known.startswith(f"{one.name}_")), "")
    if longer:
        return f"the nearest is {longer}"
    if one.name in homes:
        return f"it is written {homes[one.name]}"
    near = difflib.get_close_matches(one.name[:NEAREST_LENGTH_MAX], one.known, n=1)
    return f"the nearest is {near[0]}" if near else f"there are: {', '.join(one.known)}"


@cache
def _known_of(type_: Any) -> tuple[inspect.Type, dict[str, str]]:  # noqa: ANN401  # what msgspec takes
    """A type as msgspec sees it, and `_homes` of it; there are a few dozen."""
    info = inspect.type_info(type_)
    return info, _homes(info)


def _homes(info: inspect.Type) -> dict[str, str]:
    """Where each field belongs, the outermost place of a name, as `pod_sets[].gpu.count`."""
    homes: dict[str, str] = {}
    seen: set[type] = set()
    level = [(info, "")]
    while level:
        below = []
        for kind, path in ((kind, path) for one, path in level for kind in _kinds(one)):
            if isinstance(kind, inspect.StructType) and kind.cls not in seen:
                seen.add(kind.cls)
                for field in kind.fields:
                    place = _join(path, field.encode_name)
                    homes.setdefault(field.encode_name, place)
                    below.append((field.type, place))
            elif isinstance(kind, inspect.VarTupleType | inspect.ListType):
                below.append((kind.item_type, f"{path}[]"))
        level = below
    return homes


def _printable(text: str) -> str:
    """`text`, shortened, fit to be sent back."""
    return fit_for_utf8(text[:VALUE_LENGTH_MAX])
