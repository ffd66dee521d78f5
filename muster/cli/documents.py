"""Reads YAML or JSON files of one or many documents; "-" is standard input.

What is read is what JSON can say, as it is sent: a date stays the text that was written, and what
JSON has no form for is told by file, document and field before anything is sent.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any, Final

from muster.cli.failures import UsageError

Json = dict[str, Any]
DEPTH_MAX: Final = 100
"""Levels of a document; one that holds itself has no end."""
VALUES_MAX: Final = 5_000_000
"""Values of a file, counted as often as aliases repeat them."""


def read_documents(files: list[str]) -> list[Json]:
    """All documents of all files, in order; a list in a file counts as many documents.

    Raises:
        UsageError: a file cannot be read, is not YAML, or holds something else than mappings of
            what JSON can say.
    """
    documents: list[Json] = []
    for file in files:
        documents += _of_text(file, _text(file))
    if not documents:
        raise UsageError("no document was given; name a file with -f FILE, or -f - for stdin")
    return documents


def _text(file: str) -> str:
    try:
        return _standard_input() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        name = "standard input" if file == "-" else file
        raise UsageError(f"{name} cannot be read: {error}") from error


def _standard_input() -> str:
    """Nothing where a program was started without one."""
    return sys.stdin.read() if sys.stdin else ""


def _of_text(file: str, text: str) -> list[Json]:
    values = _loaded(file, text)
    check = _Check(file)
    found: list[Json] = []
    for number, value in enumerate(values, 1):
        check.value(value, (f"document {number}",))
        found += _mappings(file, value)
    return found


def _loaded(file: str, text: str) -> list[Any]:
    import yaml

    try:
        return list(yaml.load_all(text, Loader=_loader(file)))
    except yaml.YAMLError as error:
        raise UsageError(f"{file} is neither YAML nor JSON: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{file} is nested too deeply") from error
    except (ValueError, LookupError, AttributeError, OverflowError) as error:
        # What the loader raises where a tag such as !!int stands before something else.
        raise UsageError(f"{file} holds a value that is not what its tag says: {error}") from error


def _loader(file: str) -> Any:  # noqa: ANN401  # yaml is imported late
    """The safe loader of YAML, but a date stays text, and no field of a mapping stands twice."""
    import yaml

    class Loader(yaml.SafeLoader):
        """With resolvers of its own; of a field that stands twice YAML would take the last."""

        def compose_mapping_node(self, anchor: Any) -> Any:  # type: ignore[explicit-override]  # noqa: ANN401  # only 3.12 has override; a node of yaml
            node = super().compose_mapping_node(anchor)
            lines: dict[str, int] = {}
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    continue
                line, before = key.start_mark.line + 1, key.value in lines
                first = lines.setdefault(key.value, line)
                if before:
                    rule = f"line {line}: the field `{key.value}` stands in line {first} already"
                    raise UsageError(f"{file}, {rule}; leave one of them out")
            return node

    Loader.yaml_implicit_resolvers = {
        first: [one for one in resolvers if one[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    return Loader


class _Check:
    """Refuses what JSON cannot say; `path` is the document and the way to the value."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._values = 0

    def value(self, value: Any, path: tuple[str, ...]) -> None:  # noqa: ANN401  # any YAML
        self._values += 1
        if self._values > VALUES_MAX:
            raise UsageError(f"{self._file} holds more than {VALUES_MAX} values")
        if len(path) > DEPTH_MAX:
            raise self._wrong(path[:4], f"is deeper than {DEPTH_MAX} levels, or holds itself")
        if isinstance(value, dict):
            for key, one in value.items():
                self._key(key, path)
                self.value(one, (*path, f".{key}"))
        elif isinstance(value, list):
            for index, one in enumerate(value):
                self.value(one, (*path, f"[{index}]"))
        elif isinstance(value, float) and not math.isfinite(value):
            raise self._wrong(path, "must be a finite number")
        elif value is not None and not isinstance(value, str | int | float):
            raise self._wrong(path, f"must be text or a number, not {type(value).__name__}")

    def _key(self, key: object, path: tuple[str, ...]) -> None:
        if not isinstance(key, str | int) or isinstance(key, bool):
            raise self._wrong(path, f"the name of a field must be text; put {key} in quotes")

    def _wrong(self, path: tuple[str, ...], rule: str) -> UsageError:
        document, field = path[0], "".join(path[1:]).removeprefix(".")
        return UsageError(": ".join(filter(None, (f"{self._file}, {document}", field, rule))))


def _mappings(file: str, value: Any) -> list[Json]:  # noqa: ANN401  # any YAML
    if value is None:
        return []
    if isinstance(value, list):
        return [one for item in value for one in _mappings(file, item)]
    if not isinstance(value, dict):
        raise UsageError(f"{file}: a document must be a mapping, not {type(value).__name__}")
    return [value]
