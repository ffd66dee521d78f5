"""Every rule that a value breaks, with its path, what was given and what is allowed.

msgspec ends at the first fault. So a value that it refuses is taken apart by its type, and each
part is asked about again, until the faults stand alone. Parts that are right are asked once, so
the time is a few times that of one reading, whatever is wrong.
"""

from __future__ import annotations

import difflib
import json
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from itertools import islice
from typing import Annotated, Any, Final

import msgspec

from shared.core.model.decision import FieldError
from shared.events.strict import PRINTABLE

ERRORS_MAX: Final = 50
VALUE_LENGTH_MAX: Final = 120
NEAREST_MAX: Final = 10
"""Unknown fields for which the nearest name is looked for: it takes about 0.3 ms each."""
NEAREST_LENGTH_MAX: Final = 63
_PATH_END: Final = re.compile(r" - at `[^`]*`$", re.DOTALL)
_NOT_PRINTABLE: Final = f"Expected `str` matching regex {PRINTABLE!r}"


def broken_rules(tree: Any, annotation: Any) -> list[FieldError]:  # noqa: ANN401  # JSON, a type
    """At most `ERRORS_MAX` faults of `tree`, in its order; none if it is right."""
    return list(islice(_Walk(annotation).faults(tree, annotation, ""), ERRORS_MAX))


def fit_for_utf8(text: str) -> str:
    r"""`text` as it can be sent: a lone surrogate, which no UTF-8 has, is written as `\udcff`."""
    return text.encode("utf-8", "backslashreplace").decode()


def given(value: Any) -> str:  # noqa: ANN401  # any JSON value
    """What the caller gave, shortened."""
    return json.dumps(value)[:VALUE_LENGTH_MAX]


def plain_rule(text: str, annotation: Any = None) -> str:  # noqa: ANN401  # a type
    """A message of msgspec without its path; in words for a pattern and an enum."""
    rule = _PATH_END.sub("", text)
    if rule == _NOT_PRINTABLE:
        return "must be printable characters"
    choices = _choices(annotation) if rule.startswith("Invalid enum value") else []
    return f"must be one of {', '.join(choices)}" if choices else rule


class _Walk:
    """One value that is taken apart; hints at nearest names are bounded over all of it."""

    def __init__(self, annotation: Any) -> None:  # noqa: ANN401  # a type
        self._homes = _homes(annotation)
        self._hints = 0

    def faults(self, tree: Any, annotation: Any, path: str) -> Iterator[FieldError]:  # noqa: ANN401  # JSON, a type
        message = _refusal(tree, annotation)
        if message is None:
            return
        found = False
        for kind in _kinds(annotation):
            for error in self._parts(tree, kind, path):
                found = True
                yield error
        if not found:
            rule = plain_rule(message, annotation)
            yield FieldError(field=_sendable(path), value=given(tree), rule=rule)

    def _parts(self, tree: Any, kind: Any, path: str) -> Iterator[FieldError]:  # noqa: ANN401  # JSON, a type
        """Faults of what is in `tree`, if it has the form of `kind`."""
        plain, bounds = _unwrapped(kind)
        origin, arguments = typing.get_origin(plain), typing.get_args(plain)
        if isinstance(tree, dict) and _is_struct(plain):
            yield from self._fields(tree, plain, path)
        elif isinstance(tree, list) and origin in (tuple, list):
            yield from _of_the_whole(tree, Annotated[(list[Any], *bounds)], bounds, path)
            for index, item in enumerate(tree):
                yield from self.faults(item, arguments[0], f"{path}[{index}]")
        elif isinstance(tree, dict) and origin is dict:
            yield from _of_the_whole(tree, Annotated[(dict[str, Any], *bounds)], bounds, path)
            yield from self._entries(tree, arguments, path)

    def _fields(self, tree: Mapping[str, Any], struct: type, path: str) -> Iterator[FieldError]:
        known = {one.encode_name: one for one in msgspec.structs.fields(struct)}
        for name, value in tree.items():
            if name in known:
                yield from self.faults(value, known[name].type, _join(path, name))
            else:
                rule = self._unknown(name, tuple(known))
                yield FieldError(field=_sendable(_join(path, name)), value=given(value), rule=rule)
        for name, one in known.items():
            if one.required and name not in tree:
                yield FieldError(field=_join(path, name), value="", rule="is required")

    def _entries(
        self, tree: Mapping[str, Any], arguments: Sequence[Any], path: str
    ) -> Iterator[FieldError]:
        key_type, value_type = arguments
        for key, value in tree.items():
            message = _refusal(key, key_type)
            if message is not None:
                yield FieldError(field=path, value=given(key), rule=plain_rule(message))
            yield from self.faults(value, value_type, _join(path, key))

    def _unknown(self, name: str, known: Sequence[str]) -> str:
        self._hints += 1
        if self._hints > NEAREST_MAX:
            return "unknown field"
        return f"unknown field; {_hint(name, known, self._homes)}"


def _refusal(tree: Any, annotation: Any) -> str | None:  # noqa: ANN401  # JSON, a type
    """Why `tree` is none of `annotation`; None if it is."""
    try:
        msgspec.convert(tree, annotation)
    except msgspec.ValidationError as error:
        return str(error)
    except (UnicodeError, OverflowError) as error:
        return f"must be JSON in UTF-8: {error}"
    return None


def _of_the_whole(
    tree: Any,  # noqa: ANN401  # JSON
    bounded: Any,  # noqa: ANN401  # a type
    bounds: Sequence[Any],
    path: str,
) -> Iterator[FieldError]:
    """How many there may be."""
    message = _refusal(tree, bounded) if bounds else None
    if message is not None:
        yield FieldError(field=_sendable(path), value=given(tree), rule=plain_rule(message))


def _hint(name: str, known: Sequence[str], homes: Mapping[str, str]) -> str:
    longer = next((one for one in known if one.startswith(f"{name}_")), "")
    if longer:
        return f"the nearest is {longer}"
    if name in homes:
        return f"it is written {homes[name]}"
    near = difflib.get_close_matches(name[:NEAREST_LENGTH_MAX], known, n=1)
    return f"the nearest is {near[0]}" if near else f"there are: {', '.join(known)}"


@cache
def _homes(annotation: Any) -> dict[str, str]:  # noqa: ANN401  # a type; there are a few dozen
    """Where each field belongs, the outermost place of a name, as `pod_sets[].gpu.count`."""
    homes: dict[str, str] = {}
    seen: set[Any] = set()
    level = [(annotation, "")]
    while level:
        below = []
        for kind, path in ((kind, path) for one, path in level for kind in _kinds(one)):
            plain, _ = _unwrapped(kind)
            if _is_struct(plain) and plain not in seen:
                seen.add(plain)
                for field in msgspec.structs.fields(plain):
                    place = _join(path, field.encode_name)
                    homes.setdefault(field.encode_name, place)
                    below.append((field.type, place))
            elif typing.get_origin(plain) in (tuple, list):
                below.append((typing.get_args(plain)[0], f"{path}[]"))
        level = below
    return homes


def _choices(annotation: Any) -> list[str]:  # noqa: ANN401  # a type
    """The values of the enum that it is."""
    plain = (_unwrapped(kind)[0] for kind in _kinds(annotation))
    return [
        one.value
        for kind in plain
        if isinstance(kind, type) and issubclass(kind, Enum)
        for one in kind
    ]


def _kinds(annotation: Any) -> list[Any]:  # noqa: ANN401  # a type
    """The alternatives of a union; anything else is its only one."""
    plain, _ = _unwrapped(annotation)
    if typing.get_origin(plain) in (types.UnionType, typing.Union):
        return [one for kind in typing.get_args(plain) for one in _kinds(kind)]
    return [annotation]


def _unwrapped(annotation: Any) -> tuple[Any, tuple[Any, ...]]:  # noqa: ANN401  # a type
    """A type without its bounds, and these."""
    if typing.get_origin(annotation) is Annotated:
        plain, *bounds = typing.get_args(annotation)
        return plain, tuple(bounds)
    return annotation, ()


def _is_struct(annotation: Any) -> bool:  # noqa: ANN401  # a type
    return isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _sendable(path: str) -> str:
    """A path, shortened, fit to be sent back."""
    return fit_for_utf8(path[:VALUE_LENGTH_MAX])
