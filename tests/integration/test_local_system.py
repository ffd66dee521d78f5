"""The local runner: it restarts what dies, stops whole, and clears up after a killed run."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local import state, supervisor
from deploy.local.keeper import Keeper
from deploy.local.processes import MARK, Program, marked, running, wait_until
from deploy.local.services import SERVICES, Service
from deploy.local.system import LocalSystem
from tests.fixtures.shared_folder import shared_folder

TINY = tuple(
    Service(name=name, role="quota", module="tests.fixtures.tiny_service")
    for name in ("first", "gateway")
)
SUPERVISE = (
    "import sys; from pathlib import Path; from deploy.local.supervisor import run;"
    "from tests.integration.test_local_system import TINY; run(Path(sys.argv[1]), TINY)"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="system-", dir=shared_folder()))
    folder.chmod(0o755)
    yield folder
    supervisor.down(folder)


@pytest.fixture
def system(folder: Path) -> Iterator[LocalSystem]:
    system = LocalSystem(folder, services=TINY, overrides={"gateway": {"MUSTER_SPEED": "7"}})
    system.start()
    system.wait_ready(60)
    yield system
    system.discard()


def test_every_process_is_told_its_place(system: LocalSystem):
    told = _settings(system, "gateway")

    assert told["MUSTER_SLOT"] == "gateway"
    assert told["MUSTER_SPEED"] == "7"
    assert told["MUSTER_KAFKA_BOOTSTRAP"] == system.kafka.bootstrap
    assert told["MUSTER_DATABASE_URL"].startswith("postgresql://muster_quota:")
    assert "MUSTER_SPEED" not in _settings(system, "first")


def test_a_killed_service_is_started_again_on_its_port(system: LocalSystem):
    pid, url = system.pid("first"), system.url("first")

    system.kill("first")
    wait_until(lambda: system.ready("first"), seconds=40, what="the restart")

    assert system.pid("first") != pid
    assert system.url("first") == url
    assert (system.restarts("first"), system.restarts("gateway")) == (1, 0)


def test_a_system_that_was_stopped_is_found_where_it_was(system: LocalSystem, folder: Path):
    places = system.kafka.bootstrap, system.postgres.port, system.url("first")
    system.stop()

    again = LocalSystem(folder, services=TINY)
    again.start()
    try:
        assert places == (again.kafka.bootstrap, again.postgres.port, again.url("first"))
    finally:
        again.stop()


def test_killed_servers_come_back_with_their_data(system: LocalSystem):
    system.postgres.execute("CREATE TABLE kept (id int)", database="muster")

    system.kill("postgres")
    system.kill("kafka")
    wait_until(system.postgres.answers, seconds=40, what="the database")
    wait_until(system.kafka.answers, seconds=60, what="the broker")

    assert system.postgres.execute("SELECT count(*) FROM kept", database="muster") == "0"


def test_a_postmaster_killed_alone_comes_back(system: LocalSystem):
    os.kill(system.pid("postgres") or 0, signal.SIGKILL)

    wait_until(lambda: system.restarts("postgres") > 0, seconds=40, what="the restart")
    wait_until(system.postgres.answers, seconds=40, what="the database")


def test_a_stopped_system_leaves_nothing(system: LocalSystem, folder: Path):
    assert (state.read(folder) or pytest.fail("no state")).started

    system.stop()

    assert _marked(folder) == []
    assert state.read(folder) is None
    assert not (folder / state.CLIENT_FILE).exists()


def test_the_command_line_finds_address_and_key(system: LocalSystem, folder: Path):
    told = json.loads((folder / state.CLIENT_FILE).read_text())

    assert told["address"] == system.url("gateway")
    assert told["key"] == Path(_settings(system, "gateway")["MUSTER_ADMIN_KEY_FILE"]).read_text()


def test_what_a_supervisor_writes_is_its_user_s_alone(folder: Path):
    process = _supervise(folder)
    try:
        what = ("-type", "f,d", "-not", "-name", supervisor.LOCK, "-perm", "/066")
        command = ["find", str(folder), *what]
        open_to_others = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        supervisor.down(folder)
        process.wait()

    assert open_to_others.stdout.splitlines() == []


def test_a_killed_supervisor_is_replaced_and_its_orphans_end(folder: Path):
    stranger = subprocess.Popen(["sleep", "60"], env={**os.environ, MARK: f"{folder}-other"})
    first = _supervise(folder)
    orphans = _marked(folder)
    first.kill()
    first.wait()
    assert orphans
    assert not supervisor.is_up(folder)

    second = _supervise(folder)

    assert not any(running(pid) for pid in orphans)
    assert supervisor.is_up(folder)
    assert supervisor.up(folder) is False
    assert supervisor.down(folder) is True
    assert _marked(folder) == []
    assert second.wait() == 0
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_a_process_that_keeps_dying_is_started_ever_more_slowly(tmp_path: Path):
    told: list[str] = []
    program = Program(name="failing", command=["false"], log=tmp_path / "log")
    keeper = Keeper(program, told.append)

    keeper.start()
    wait_until(lambda: keeper.restarts >= 3, seconds=40, what="three restarts")
    keeper.stop()

    delays = [line.split()[-2] for line in told if "ended" in line]
    assert delays[:3] == ["0.1", "0.2", "0.4"]


def test_the_table_names_every_process_once():
    names = [service.name for service in SERVICES]

    assert len(names) == len(set(names))
    assert all(need in {"kafka", "postgres", *names} for row in SERVICES for need in row.needs)


def _settings(system: LocalSystem, name: str) -> dict[str, str]:
    with urllib.request.urlopen(system.url(name), timeout=30) as answer:
        settings: dict[str, str] = json.load(answer)
    return settings


def _marked(folder: Path) -> list[int]:
    return [pid for pid, home in marked(MARK) if home == str(folder)]


def _supervise(folder: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", SUPERVISE, str(folder)])
    wait_until(lambda: supervisor.is_up(folder), seconds=40, what="the supervisor to begin")
    wait_until(lambda: _runs_in(folder, process.pid), seconds=60, what="the system to start")
    return process


def _runs_in(folder: Path, pid: int) -> bool:
    found = state.read(folder)
    return found is not None and found.started and found.supervisor == pid
