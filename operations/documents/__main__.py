"""`python -m operations.documents --write | --check`: all generated documents of docs/.

`--write` refuses to change a schema in a way that a message of today would not survive.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from operations.documents import (
    asyncapi,
    decisions,
    lifecycle,
    metrics,
    reasons,
    schemas,
    settings,
    workload,
)
from operations.documents.compatibility import broken_promises

CHECKOUT: Final = Path(__file__).parents[2]
SCHEMAS: Final = "shared/events/schemas"


def rendered() -> dict[str, str]:
    """The text of every generated file by its path in the repository."""
    files = {f"{SCHEMAS}/{name}.json": text for name, text in schemas.render().items()}
    return files | {
        "docs/adr/README.md": decisions.render(),
        "docs/asyncapi.yaml": asyncapi.render(),
        "docs/lifecycle.md": lifecycle.render(),
        "docs/metrics.md": metrics.render(),
        "docs/reasons.md": reasons.render(),
        "docs/settings.md": settings.render(),
        "docs/workload.md": workload.render(),
    }


def stale(files: dict[str, str], checkout: Path) -> list[str]:
    """Paths that are missing, out of date, or schemas of a type that is no more."""
    wrong = [path for path, text in files.items() if _read(checkout / path) != text]
    present = {f"{SCHEMAS}/{one.name}" for one in (checkout / SCHEMAS).glob("*.json")}
    return sorted([*wrong, *(present - files.keys())])


def broken(files: dict[str, str], checkout: Path) -> list[str]:
    """Changes of committed schemas that a message of today would not survive."""
    return [
        f"{path}: {problem}"
        for path in sorted(files)
        if path.startswith(SCHEMAS) and (before := _read(checkout / path))
        for problem in broken_promises(before, files[path])
    ]


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or say which are stale; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m operations.documents", description=__doc__)
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", action="store_true")
    choice.add_argument("--check", action="store_true")
    write = parser.parse_args(arguments).write
    files = rendered()
    problems = broken(files, CHECKOUT)
    if write and not problems:
        for path in stale(files, CHECKOUT):
            _put(CHECKOUT / path, files.get(path))
        return 0
    for problem in problems:
        print(f"{problem} (a schema grows or gets a new version)", file=sys.stderr)
    for path in stale(files, CHECKOUT):
        print(f"{path} is stale: run `make generated`", file=sys.stderr)
    return 1 if problems or stale(files, CHECKOUT) else 0


def _put(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
