"""Reads YAML or JSON files of one or many documents; "-" is standard input.

What is read is what JSON can say, as it is sent: a date stays the text that was written, and all
that JSON has no form for is told by file, document and field before anything is sent.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from muster.cli.failures import UsageError

Json = dict[str, Any]
DEPTH_MAX: Final = 100
"""Levels of a document; one that holds itself has no end."""
VALUES_MAX: Final = 5_000_000
"""Values of a file, counted as often as aliases repeat them."""
FAULTS_MAX: Final = 50
"""So many are told of a file."""


class Document(NamedTuple):
    """One document, and where it stands: "jobs.yaml, document 2"."""

    place: str
    body: Json

    @property
    def title(self) -> str:
        """Its place and its name, for messages."""
        return f"{self.place} ({self.body.get('name', 'without a name')})"


def usage_error(faults: list[str]) -> UsageError:
    """One error of several faults, a line each."""
    more = len(faults) - FAULTS_MAX
    lines = [*faults[:FAULTS_MAX], *([f"and {more} more"] if more > 0 else [])]
    return UsageError(lines[0] if len(lines) == 1 else "\n  ".join(["several faults:", *lines]))


def read_documents(files: list[str]) -> list[Document]:
    """All documents of all files, in order; a list in a file counts as many documents.

    Raises:
        UsageError: a file cannot be read, is not YAML, or holds something else than mappings of
            what JSON can say.
    """
    documents: list[Document] = []
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


def _of_text(file: str, text: str) -> list[Document]:
    name = "standard input" if file == "-" else file
    values = _loaded(name, text)
    check = _Check(name)
    found: list[Document] = []
    for number, value in enumerate(values, 1):
        check.value(value, (f"document {number}",))
        found += check.mappings(value, f"{name}, document {number}")
    if check.faults:
        raise usage_error(check.faults)
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
    """Collects what JSON cannot say; `path` is the document and the way to the value."""

    def __init__(self, file: str) -> None:
        self.faults: list[str] = []
        self._file = file
        self._values = 0

    def value(self, value: Any, path: tuple[str, ...]) -> None:  # noqa: ANN401  # any YAML
        self._values += 1
        if self._values > VALUES_MAX:
            raise UsageError(f"{self._file} holds more than {VALUES_MAX} values")
        if len(path) > DEPTH_MAX:
            self._wrong(path[:4], f"is deeper than {DEPTH_MAX} levels, or holds itself")
            raise usage_error(self.faults)
        if isinstance(value, dict):
            for key, one in value.items():
                self._key(key, path)
                self.value(one, (*path, f".{key}"))
        elif isinstance(value, list):
            for index, one in enumerate(value):
                self.value(one, (*path, f"[{index}]"))
        elif isinstance(value, float) and not math.isfinite(value):
            self._wrong(path, "must be a finite number")
        elif value is not None and not isinstance(value, str | int | float):
            self._wrong(path, f"must be text or a number, not {type(value).__name__}")

    def mappings(self, value: Any, place: str) -> list[Document]:  # noqa: ANN401  # any YAML
        """The documents that a value is; an empty one is none."""
        if value is None:
            return []
        if isinstance(value, list):
            items = enumerate(value, 1)
            return [
                one
                for number, item in items
                for one in self.mappings(item, f"{place}, item {number}")
            ]
        if not isinstance(value, dict):
            self.faults.append(f"{place}: must be a mapping, not {type(value).__name__}")
            return []
        return [Document(place, value)]

    def _key(self, key: object, path: tuple[str, ...]) -> None:
        if not isinstance(key, str | int) or isinstance(key, bool):
            self._wrong(path, f"the name of a field must be text; put {key} in quotes")

    def _wrong(self, path: tuple[str, ...], rule: str) -> None:
        document, field = path[0], "".join(path[1:]).removeprefix(".")
        fault = ": ".join(filter(None, (f"{self._file}, {document}", field, rule)))
        self.faults.append(fault)
