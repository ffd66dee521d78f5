"""What nodes take of this machine, and give back."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from deploy.kubelets.place import LINKS, take_place
from deploy.local.processes import MARK, wait_until

pytestmark = [pytest.mark.kubelet, pytest.mark.usefixtures("nodes_can_run")]
SECONDS = 40


def test_a_place_leaves_no_cable_though_the_network_at_its_other_end_is_still_there(
    tmp_path: Path,
) -> None:
    home = str(tmp_path)
    node = subprocess.Popen(["unshare", "--net", "sleep", "60"], env={**os.environ, MARK: home})
    try:
        wait_until(lambda: _network(node.pid) != _network(os.getpid()), seconds=SECONDS, what="it")
        place = take_place(tmp_path, home)
        try:
            place.plug(0, node.pid)
            plugged = (LINKS / place.link(0)).exists()
        finally:
            place.remove()
    finally:
        node.kill()
        node.wait()

    assert plugged
    assert not (LINKS / place.link(0)).exists()


def _network(pid: int) -> str:
    return str(Path(f"/proc/{pid}/ns/net").readlink())
