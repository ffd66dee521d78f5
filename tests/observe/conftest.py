"""Prometheus and promtool for these tests: installed, or Debian's unpacked into the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.processes import LocalError
from deploy.observe import programs


def _or_skip(find: object) -> Path:
    assert callable(find)
    try:
        return Path(find())
    except LocalError as error:
        if programs.required():
            raise
        # A machine without Debian's packages at hand tests all else; CI sets MUSTER_OBSERVE.
        pytest.skip(f"{error}")


@pytest.fixture(scope="session")
def promtool() -> Path:
    return _or_skip(programs.promtool)


@pytest.fixture(scope="session")
def alertmanager() -> Path:
    """Debian's, where it is installed: it needs its template where root puts it; CI does."""
    found = programs.alertmanager()
    if found is None:
        assert not programs.required(), "apt-get install prometheus-alertmanager"
        pytest.skip("apt-get install prometheus-alertmanager")
    return found


@pytest.fixture(scope="session")
def prometheus() -> Path:
    return _or_skip(programs.prometheus)
