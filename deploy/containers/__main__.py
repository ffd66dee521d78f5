"""`python -m deploy.containers COMMAND...`: run a command with a container engine at hand.

Exits as the command does. Where there is no engine and none can be started, it says why and exits
0; with `MUSTER_CONTAINERS=required`, as in CI, it exits 1.
"""

import os
import subprocess
import sys

from deploy.containers.engine import an_engine
from deploy.local.processes import LocalError

VARIABLE = "MUSTER_CONTAINERS"
REQUIRED = "required"
USAGE = "usage: python -m deploy.containers COMMAND..."


def main(command: list[str]) -> int:
    """Run the command; its exit code."""
    if not command:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        with an_engine() as variables:
            return subprocess.run(command, env={**os.environ, **variables}, check=False).returncode
    except LocalError as error:
        return _without(error)


def _without(error: LocalError) -> int:
    if os.environ.get(VARIABLE) == REQUIRED:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"skipped: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
