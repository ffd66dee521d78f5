"""Ask a service over HTTP whether it is ready to work."""

import urllib.request
from collections.abc import Mapping

from deploy.local.processes import LocalError, wait_until

PROBE_SECONDS = 2
HTTP_OK = 200


def is_ready(probe: str) -> bool:
    """Whether a service's probe, `http://.../readyz`, answers that it is ready."""
    try:
        with urllib.request.urlopen(probe, timeout=PROBE_SECONDS) as answer:  # noqa: S310
            return bool(answer.status == HTTP_OK)
    except OSError:
        return False


def wait_all_ready(probes: Mapping[str, str], seconds: float) -> None:
    """Return when all services are ready.

    Raises:
        LocalError: some were not in time; they are named.
    """
    waiting = dict(probes)

    def none_waits() -> bool:
        for name in [name for name, probe in waiting.items() if is_ready(probe)]:
            del waiting[name]
        return not waiting

    try:
        wait_until(none_waits, seconds=seconds, what="services")
    except LocalError as error:
        names = ", ".join(waiting)
        raise LocalError(f"not ready after {seconds:.0f} s: {names} (make logs s=NAME)") from error
