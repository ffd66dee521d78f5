"""Another revision of this repository beside the checkout, for tests of an upgrade."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.local.cache import CHECKOUT


@contextmanager
def checkout_of(revision: str, folder: Path) -> Iterator[Path]:
    """A working tree of a revision, removed at the end."""
    place = folder / "old"
    _git("worktree", "add", "--detach", "--quiet", str(place), revision)
    try:
        yield place
    finally:
        _git("worktree", "remove", "--force", str(place))


def _git(*arguments: str) -> None:
    subprocess.run(["git", "-C", str(CHECKOUT), *arguments], check=True)
