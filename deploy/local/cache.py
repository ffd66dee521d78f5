"""Where fetched things are kept between runs.

`.cache` of the checkout, and for what is large and the same for every checkout the user's cache;
`MUSTER_CACHE` names another place for both.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def cache_folder() -> Path:
    """The folder of everything fetched."""
    return Path(os.environ.get("MUSTER_CACHE") or CHECKOUT / ".cache")


def machine_cache_folder() -> Path:
    """The folder of what is too large for every checkout; `MUSTER_CACHE` moves this, too."""
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("MUSTER_CACHE") or own / "muster")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file lock; others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
