"""Reads a JSON body strictly: whatever could later poison the log or the database ends here.

In order: size, NUL, depth, duplicate keys, then types, bounds and unknown fields by msgspec. A
duplicate key or a value of the wrong type is told with its field path, what was given and what
is allowed (reliability.md S19).
"""

from __future__ import annotations

import difflib
import json
import re
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from services.gateway.problems import Problem, invalid
from shared.core.decision import FieldError

BODY_BYTES_MAX: Final = 64 << 10
BATCH_BYTES_MAX: Final = 4 << 20
DEPTH_MAX: Final = 20
VALUE_LENGTH_MAX: Final = 120
ERRORS_MAX: Final = 50
Decoded = TypeVar("Decoded")

_PATH = re.compile(r"^(?P<rule>.*?)(?: - at `(?P<key>key in )?\$?(?P<path>.*?)`)?$", re.DOTALL)
_UNKNOWN: Final = "Object contains unknown field"


def decode(body: bytes, decoder: msgspec.json.Decoder[Decoded]) -> Decoded:
    """The value of `body`.

    Raises:
        Problem: 400 with every unknown field, or with the first other broken rule.
    """
    tree = parse(body)
    try:
        return decoder.decode(body)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise invalid(_errors(str(error), tree, decoder.type)) from error
    except (UnicodeDecodeError, RecursionError) as error:
        raise _malformed("must be JSON in UTF-8") from error


def parse(body: bytes) -> Any:  # noqa: ANN401  # any JSON value
    """The tree of `body`, without NUL, duplicate keys, or more than `DEPTH_MAX` levels."""
    if b"\x00" in body or b"\\u0000" in body:
        raise _malformed("must not contain NUL")
    if body.count(b"[") + body.count(b"{") > DEPTH_MAX and _depth(body) > DEPTH_MAX:
        raise _malformed(f"must not be nested deeper than {DEPTH_MAX} levels")
    try:
        return json.loads(body, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"must be JSON: {error}") from error


def _malformed(rule: str) -> Problem:
    return invalid([FieldError(field="", value="", rule=rule)], f"the body {rule}")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        text = twice.encode("ascii", "backslashreplace").decode()[:VALUE_LENGTH_MAX]
        raise invalid([FieldError(field=text, value=text, rule="must not be given twice")])
    return result


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def _depth(body: bytes) -> int:
    """Levels of nesting outside of strings; O(bytes), only for bodies with many brackets."""
    level = deepest = 0
    for bracket in re.finditer(rb'"(?:[^"\\]|\\.)*"|[\[{\]}]', body):
        sign = bracket.group()
        if sign in (b"[", b"{"):
            level += 1
            deepest = max(deepest, level)
        elif sign in (b"]", b"}"):
            level -= 1
    return deepest


def _errors(text: str, tree: Any, type_: Any) -> list[FieldError]:  # noqa: ANN401  # JSON, type
    if text.startswith(_UNKNOWN):
        return _unknown_fields(tree, inspect.type_info(type_), "")[:ERRORS_MAX]
    match = _PATH.match(text)
    rule, path = (match["rule"], match["path"] or "") if match else (text, "")
    missing = re.match(r"Object missing required field `(.*)`", rule)
    if missing:
        return [FieldError(field=_join(_plain(path), missing[1]), value="", rule="is required")]
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


def _unknown_fields(tree: Any, info: inspect.Type, path: str) -> list[FieldError]:  # noqa: ANN401  # any JSON value
    errors: list[FieldError] = []
    for kind in _kinds(info):
        if isinstance(kind, inspect.StructType) and isinstance(tree, dict):
            errors += _unknown_here(tree, kind, path)
        elif isinstance(kind, inspect.VarTupleType | inspect.ListType) and isinstance(tree, list):
            for index, item in enumerate(tree):
                errors += _unknown_fields(item, kind.item_type, f"{path}[{index}]")
    return errors


def _unknown_here(tree: dict[str, Any], info: inspect.StructType, path: str) -> list[FieldError]:
    known = {field.name: field.type for field in info.fields}
    errors = []
    for name, value in tree.items():
        where = _join(path, name)
        if name in known:
            errors.extend(_unknown_fields(value, known[name], where))
            continue
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        rule = f"unknown field; the nearest is {near[0]}" if near else "unknown field"
        value_text = json.dumps(value)[:VALUE_LENGTH_MAX]
        errors.append(FieldError(field=where[:VALUE_LENGTH_MAX], value=value_text, rule=rule))
    return errors
