"""Reads YAML or JSON files of one or many documents; "-" is standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from muster.cli.failures import UsageError

Json = dict[str, Any]


def read_documents(files: list[str]) -> list[Json]:
    """All documents of all files, in order; a list in a file counts as many documents.

    Raises:
        UsageError: a file cannot be read, is not YAML, or holds something else than mappings.
    """
    documents: list[Json] = []
    for file in files:
        documents += _of_text(file, _text(file))
    if not documents:
        raise UsageError("no document was given; name a file with -f FILE, or -f - for stdin")
    return documents


def _text(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


def _of_text(file: str, text: str) -> list[Json]:
    import yaml

    try:
        values = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise UsageError(f"{file} is neither YAML nor JSON: {error}") from error
    found: list[Json] = []
    for value in values:
        found += _mappings(file, value)
    return found


def _mappings(file: str, value: Any) -> list[Json]:  # noqa: ANN401  # any YAML
    if value is None:
        return []
    if isinstance(value, list):
        return [one for item in value for one in _mappings(file, item)]
    if not isinstance(value, dict):
        raise UsageError(f"{file}: a document must be a mapping, not {type(value).__name__}")
    return [value]
