"""Which engine a command gets: the machine's where one answers, else one of our own.

An engine that answers is somebody's: it is given no stand-ins, which would pass there for the real
images. It serves where it has the images or can pull them.
"""

import contextlib
from collections.abc import Iterator, Mapping

from deploy.containers.docker import Docker
from deploy.containers.names import BASE_IMAGES
from deploy.containers.own_engine import OwnEngine, obstacle
from deploy.local.processes import LocalError


@contextlib.contextmanager
def an_engine() -> Iterator[Mapping[str, str]]:
    """The variables that lead `docker` to an engine with Compose and all base images.

    Raises:
        LocalError: there is none; the message says why, and what to do.
    """
    machine = Docker()
    if machine.answers():
        _require(machine)
        yield {}
        return
    reason = obstacle()
    if reason:
        raise LocalError(f"no container engine answers, and none can be started here: {reason}")
    with OwnEngine().running() as variables:
        yield variables


def _require(machine: Docker) -> None:
    machine.require_compose()
    for image in BASE_IMAGES:
        machine.require_image(image)
