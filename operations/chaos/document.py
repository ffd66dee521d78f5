"""Reads documents of chaos; what is wrong is told with field, value and rule, all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from operations.failures import Refused
from shared.core.admission.errors import Errors

BYTES_MAX: Final = 1 << 20
NAMES_MAX: Final = 10_000
Read = TypeVar("Read")


def read(path: Path, form: Callable[[object, Errors], Read]) -> Read:
    """What `form` makes of the YAML or JSON of a file.

    Raises:
        Failure: the file cannot be read.
        Refused: it is not what it must be.
    """
    import yaml

    with path.open("rb") as file:
        content = file.read(BYTES_MAX + 1)
    errors = Errors()
    if len(content) > BYTES_MAX:
        errors.add("", f"{len(content)} bytes", f"must have at most {BYTES_MAX:,} bytes")
        raise _refused(path, errors)
    try:
        value = yaml.safe_load(content)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise Refused(f"{path}: it is no YAML: {' '.join(str(error).split())}") from error
    found = form(value, errors)
    if errors:
        raise _refused(path, errors)
    return found


def _refused(path: Path, errors: Errors) -> Refused:
    lines = [
        f"  {one.field or 'document'}: {one.rule}"
        + (f" (given: {one.value})" if one.value else "")
        for one in errors
    ]
    return Refused("\n".join([f"{path} is refused", *lines]))


class Fields:
    """The fields of one mapping, each asked for once; what was not asked for is no field."""

    def __init__(self, value: object, path: str, errors: Errors) -> None:
        self._errors = errors
        self._path = path
        self._asked: list[str] = []
        self._values: Mapping[Any, Any] = {}
        if isinstance(value, Mapping):
            self._values = value
        else:
            errors.add(path.rstrip("."), value, "must be a mapping")

    def text(self, name: str, default: str | None = None) -> str:
        """A text that is not empty; without a default it is needed."""
        value = self._get(name, default)
        if not isinstance(value, str) or not value:
            return str(self._wrong(name, value, "must be a text", ""))
        return value

    def choice(self, name: str, allowed: Sequence[str], default: str | None = None) -> str:
        """One of some words."""
        value = self._get(name, default)
        if value not in allowed:
            return str(
                self._wrong(name, value, f"must be one of {', '.join(allowed)}", allowed[0])
            )
        return str(value)

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number of a range, both ends allowed."""
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self._wrong(name, value, f"must be a whole number from {low:,} to {high:,}", low)
            return low
        return value

    def number(self, name: str, low: float, high: float) -> float:
        """A number of a range, both ends allowed."""
        value = self._get(name, None)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not low <= value <= high:
            self._wrong(name, value, f"must be a number from {low:,g} to {high:,g}", low)
            return low
        return float(value)

    def texts(self, name: str, allowed: Sequence[str] = ()) -> tuple[str, ...]:
        """A list of texts, empty where it is missing; each one of `allowed`, if there are any."""
        value = self._get(name, [])
        if not isinstance(value, list) or len(value) > NAMES_MAX:
            self._wrong(name, value, f"must be a list of at most {NAMES_MAX:,} texts", ())
            return ()
        for at, one in enumerate(value):
            if not isinstance(one, str) or not one or (allowed and one not in allowed):
                rule = f"must be one of {', '.join(allowed)}" if allowed else "must be a text"
                self._errors.add(f"{self._path}{name}[{at}]", one, rule)
        return tuple(one for one in value if isinstance(one, str))

    def items(self, name: str, longest: int) -> list[object]:
        """A list of anything, with one at least."""
        value = self._get(name, None)
        if not isinstance(value, list) or not 0 < len(value) <= longest:
            self._wrong(name, value, f"must be a list of 1 to {longest:,}", ())
            return []
        return value

    def raw(self, name: str) -> Any:  # noqa: ANN401  # whatever YAML holds
        """Whatever stands there; None where it is missing."""
        return self._get(name, None)

    def wrong(self, name: str, value: object, rule: str) -> None:
        """Tell of a field what its reader found."""
        self._errors.add(f"{self._path}{name}", value, rule)

    def end(self) -> None:
        """Tell of what was not asked for."""
        for name in self._values:
            if name not in self._asked:
                rule = f"is no field; there are {', '.join(self._asked)}"
                self._errors.add(f"{self._path}{name}", self._values[name], rule)

    def _get(self, name: str, default: object) -> Any:  # noqa: ANN401  # whatever YAML holds
        self._asked.append(name)
        return self._values.get(name, default)

    def _wrong(self, name: str, value: object, rule: str, instead: object) -> object:
        self._errors.add(f"{self._path}{name}", "" if value is None else value, rule)
        return instead
