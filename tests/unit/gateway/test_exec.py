"""POST /v1/workloads/{id}/exec: who may run what, its note in the audit, and how it ends."""

import asyncio
import base64
import contextlib
import json
from collections import Counter
from types import SimpleNamespace

import aiohttp
import pytest

from services.gateway.app import open_stream
from services.gateway.http.authorisation import Role, Subject
from services.gateway.pods import exec as pods_exec
from shared.ports.errors import Transient
from shared.ports.pod_exec import CommandEnded, ExecCommand, NoPod, Output
from tests.support.bare_gateway import Parts, served

ID = "w" + "a" * 26
SETTINGS = SimpleNamespace(
    cell=0, streams_max=4, team_streams_max=2, logs_bytes_max=100, exec_seconds_max=60
)


class World(Parts):
    """A gateway of one workload of team red that runs, and what a command writes."""

    def __init__(self) -> None:
        super().__init__()
        self.team = "red"
        self.subject = Subject(name="mk12", team="red", role=Role.MEMBER)
        self.told: list[str | ExecCommand] = []
        self.notes: list[tuple[str, ...]] = []
        self.pieces: list[Output | CommandEnded] = [CommandEnded(0)]
        self.error: Exception | None = None
        self.missing = False
        self.stays = False
        self.streaming = asyncio.Event()
        """Set once what is written has been passed on."""
        self.streams: Counter[str] = Counter()

    async def authenticate(self, text):  # type: ignore[explicit-override]  # new in Python 3.12
        return self.subject

    async def fetch(self, statement, *arguments):  # type: ignore[explicit-override]  # new in Python 3.12
        row = {"id": ID, "team": self.team, "state": "running", "attempt": 3}
        return [row] if arguments == (ID,) else []

    def warning(self, event, **fields):
        self.told.append(fields["error"])

    async def commit(self, order):
        (change,) = order.changes
        self.told.append("noted")
        self.notes.append((change.kind, change.actor, change.subject, change.before, change.after))

    @contextlib.asynccontextmanager
    async def run(self, request):
        self.told.append(request)
        if self.missing:
            raise NoPod("the pod of rank 0 does not run")
        yield self._pieces()

    async def _pieces(self):
        for piece in self.pieces:
            yield piece
        self.streaming.set()
        if self.error is not None:
            raise self.error
        while self.stays:
            await asyncio.sleep(0.01)


@pytest.fixture
async def world(monkeypatch):
    monkeypatch.setattr(pods_exec, "CHECK_SECONDS", 0.02)
    monkeypatch.setattr(open_stream, "CHECK_SECONDS", 0.0)
    return World()


async def _run(world, body, *, settings=SETTINGS, **parts):
    """Status, and the lines of the answer or its problem."""
    more = {
        "pod_exec": world, "streams": world.streams, "settings": settings, "closing": False,
        "commit": world.commit, "random_bytes": bytes,
    }  # fmt: skip
    headers = {"Authorization": "Bearer mk_x"}
    async with served(world, **more | parts) as port, aiohttp.ClientSession() as http:
        url = f"http://127.0.0.1:{port}/v1/workloads/{ID}/exec"
        async with http.post(url, json=body, headers=headers) as response:
            text = await response.text()
            if response.status == 200:
                return 200, [json.loads(line) for line in text.splitlines()]
            return response.status, json.loads(text)


LIST = {"command": ["ls", "-l"]}


async def test_output_is_passed_on_by_stream_and_the_end_is_its_exit_code(world):
    world.pieces = [Output("stdout", b"a\xff"), Output("stderr", b"no\n"), CommandEnded(7)]

    status, lines = await _run(world, LIST)

    first, second = base64.b64encode(b"a\xff").decode(), base64.b64encode(b"no\n").decode()
    assert (200, [{"stdout": first}, {"stderr": second}, {"exit_code": 7}]) == (status, lines)
    assert 0 == world.streams.total()


async def test_it_is_noted_who_ran_what_where_before_it_runs(world):
    await _run(world, {"command": ["cat", "a b"], "rank": 2})

    asked = ExecCommand(workload_id=ID, attempt=3, rank=2, command=("cat", "a b"))
    assert ["noted", asked] == world.told
    where = "attempt 3 rank 2"
    assert [("exec", "mk12", f"exec/{ID}", where, '["cat","a b"]')] == world.notes


@pytest.mark.parametrize(
    ("role", "team", "status"), [(Role.VIEWER, "red", 403), (Role.ADMIN, "blue", 404)]
)
async def test_viewers_may_not_and_other_teams_do_not_know_of_it(world, role, team, status):
    world.subject = Subject(name="mk", team=team, role=role)

    assert status == (await _run(world, LIST))[0]
    assert [] == world.told


@pytest.mark.parametrize(
    "body", [{}, {"command": []}, {"command": ["x"] * 65}, {"command": ["x" * 1_025]}]
)
async def test_a_command_that_is_none_is_refused(world, body):
    assert 400 == (await _run(world, body))[0]
    assert [] == world.told


async def test_a_cluster_that_runs_nothing_says_so(world):
    status, problem = await _run(world, LIST, pod_exec=None)

    assert 409 == status
    assert "pods of a simulated cluster run nothing" in problem["detail"]


async def test_without_a_container_it_is_told_why(world):
    world.missing = True

    status, problem = await _run(world, LIST)

    assert (409, "the pod of rank 0 does not run") == (status, problem["detail"])


async def test_a_command_that_cannot_be_run_ends_with_the_reason(world):
    world.pieces = [CommandEnded(None, "no such file")]

    assert (200, [{"error": "no such file"}]) == await _run(world, LIST)


@pytest.mark.parametrize("how", ["breaks off", "has no end", "writes more", "revoked", "lasts"])
async def test_without_an_end_the_answer_is_cut(world, how):
    settings = SETTINGS
    piece = Output("stdout", b"x" * 60)
    world.pieces = [piece, piece, CommandEnded(0)] if how == "writes more" else [piece]
    world.stays = how in {"revoked", "lasts"}
    if how == "breaks off":
        world.error = Transient("exec broke off")
    if how == "lasts":
        settings = SimpleNamespace(**{**vars(SETTINGS), "exec_seconds_max": 0.2})

    async def revoke():
        if how == "revoked":
            await world.streaming.wait()
            world.subject = Subject(name="mk", team="red", role=Role.VIEWER)

    revoking = asyncio.create_task(revoke())
    with pytest.raises(aiohttp.ClientPayloadError):
        await _run(world, LIST, settings=settings)
    await revoking
