"""The image's health check: an answer of 200 and nothing else is health."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from typing_extensions import override

from deploy.local.cache import CHECKOUT
from deploy.local.processes import free_port

SCRIPT = CHECKOUT / "deploy" / "healthy.sh"


class Answers(BaseHTTPRequestHandler):
    """Answers the number that the path names; `/0` is never answered."""

    def do_GET(self) -> None:
        status = int(self.path.strip("/"))
        if status:
            self.send_response(status)
            self.end_headers()

    @override
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def healthy(port: int, path: str) -> bool:
    done = subprocess.run(
        ["bash", str(SCRIPT), str(port), path], capture_output=True, check=False, timeout=30
    )
    return done.returncode == 0


@pytest.mark.parametrize(("status", "well"), [(200, True), (503, False), (404, False), (0, False)])
def test_only_200_is_health(port: int, status: int, *, well: bool):
    assert well == healthy(port, f"/{status}")


def test_a_closed_port_is_not_health():
    assert not healthy(free_port(), "/200")
