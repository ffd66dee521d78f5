"""Where fetched things are kept between runs: `.cache` of the checkout, or `MUSTER_CACHE`."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def cache_folder() -> Path:
    """The folder of everything fetched."""
    return Path(os.environ.get("MUSTER_CACHE") or CHECKOUT / ".cache")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file lock; others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
