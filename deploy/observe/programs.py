"""Where Prometheus, promtool and Alertmanager are: installed, else unpacked into the cache.

Debian's Alertmanager reads a template at a fixed place, so it works only where it is installed.
"""

import os
import shutil
from pathlib import Path
from typing import Final

from deploy import debian

PACKAGE: Final = "prometheus"
ALERTMANAGER: Final = "prometheus-alertmanager"
TEMPLATE: Final = Path("/usr/share/prometheus/alertmanager/default.tmpl")
REQUIRED: Final = "MUSTER_OBSERVE"
"""`required`: what is missing is an error of the tests, not a reason to skip them."""


def prometheus() -> Path:
    """The program; fetched once where it is not installed.

    Raises:
        LocalError: it cannot be had.
    """
    return _program("prometheus")


def promtool() -> Path:
    """The program that checks rules and runs their tests.

    Raises:
        LocalError: it cannot be had.
    """
    return _program("promtool")


def alertmanager() -> Path | None:
    """The program, if it is installed."""
    found = shutil.which(ALERTMANAGER) or shutil.which("alertmanager")
    return Path(found) if found and TEMPLATE.exists() else None


def required() -> bool:
    """Whether tests may not do without them."""
    return os.environ.get(REQUIRED) == "required"


def _program(name: str) -> Path:
    installed = shutil.which(name)
    return Path(installed) if installed else debian.unpacked(PACKAGE) / "usr" / "bin" / name
