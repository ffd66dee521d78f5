"""Committed files that are made from code: written anew, or told where they are stale."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path


def stale(folder: Path, wanted: Mapping[str, str]) -> list[str]:
    """Paths in `folder` that are missing, out of date, or of nothing that is there any more."""
    present = {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }
    return sorted(name for name in {*wanted, *present} if wanted.get(name) != present.get(name))


def run(
    program: str,
    arguments: list[str] | None,
    folder: Path,
    wanted: Mapping[str, str],
    remedy: str,
) -> int:
    """`--write` or `--check` the files of `folder`, by path; the exit code.

    `remedy`: the command that people run where one is stale.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {program}")
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", action="store_true")
    choice.add_argument("--check", action="store_true")
    write = parser.parse_args(arguments).write
    wrong = stale(folder, wanted)
    if write:
        for name in wrong:
            _put(folder / name, wanted.get(name))
        return 0
    for name in wrong:
        print(f"{folder.name}/{name} is stale: run `{remedy}`", file=sys.stderr)
    return 1 if wrong else 0


def _put(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
