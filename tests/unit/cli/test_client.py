"""The client: what it tries again, what it raises, where it finds address and key."""

import inspect
import json
from pathlib import Path

import pytest

from muster import AsyncClient, Client
from muster.configuration import find
from muster.errors import NotConfigured, NotFound, Rejected, ServerError, Unreachable
from muster.streams import events_of
from tests.unit.cli.gateway import Answer, FakeGateway, problem, stream

ID = "w" + "a" * 26


@pytest.fixture
def client(gateway: FakeGateway, monkeypatch) -> AsyncClient:
    monkeypatch.setattr("muster.transport.BACKOFF_SECONDS", 0.001)
    return AsyncClient(gateway.address, "mk_test")


@pytest.mark.parametrize("status", [429, 503])
async def test_a_submission_is_sent_again_with_the_same_key(gateway, client, status: int):
    gateway.on("POST /v1/workloads", problem(status, "later"), Answer({"id": ID}, 202))

    async with client:
        accepted = await client.submit({"name": "x"})

    assert accepted == {"id": ID}
    first, second = gateway.requests("POST /v1/workloads")
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]


async def test_an_empty_key_is_sent_as_it_is_and_refused_by_the_gateway(gateway, client):
    gateway.on("POST /v1/workloads", problem(400, "must be 1 to 200 printable ASCII characters"))

    async with client:
        with pytest.raises(Rejected):
            await client.submit({"name": "x"}, idempotency_key="")

    assert "" == gateway.seen[0].headers["Idempotency-Key"]


async def test_retry_after_is_kept(gateway, client, monkeypatch):
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    gateway.on("GET /v1/nodes", problem(429, "later", retry_after="7"), {"items": []})
    monkeypatch.setattr("muster.client.asyncio.sleep", note)

    async with client:
        await client.listing("nodes")

    assert waits == [7.0]


async def test_it_gives_up_after_a_bounded_number_of_tries(gateway, client):
    gateway.on("GET /v1/nodes", problem(503, "database is away"))

    async with client:
        with pytest.raises(Unreachable, match="database is away"):
            await client.listing("nodes")

    assert len(gateway.seen) == 6


async def test_a_new_key_is_never_asked_for_twice(gateway, client):
    gateway.on("POST /v1/teams/a/keys", problem(503, "away"))

    async with client:
        with pytest.raises(Unreachable):
            await client.create_key("a", "member", "x")

    assert len(gateway.seen) == 1


@pytest.mark.parametrize(
    ("status", "kind"), [(404, NotFound), (400, Rejected), (422, Rejected), (500, ServerError)]
)
async def test_an_error_is_typed_and_not_tried_again(gateway, client, status, kind):
    gateway.on(f"GET /v1/workloads/{ID}", problem(status, "because"))

    async with client:
        with pytest.raises(kind, match="because") as caught:
            await client.get(ID)

    assert caught.value.status == status
    assert len(gateway.seen) == 1


async def test_an_answer_that_is_not_json_is_an_error_and_no_crash(gateway, client):
    gateway.on("GET /v1/nodes", Answer(status=500, kind="text/html", text="<html>"))

    async with client:
        with pytest.raises(ServerError, match="500"):
            await client.listing("nodes")


async def test_a_name_cannot_leave_its_place_in_the_path(gateway, client):
    async with client:
        with pytest.raises(NotFound):
            await client.get("../teams")

    assert gateway.seen[0].path == "/v1/workloads/../teams"  # decoded by the fake; sent as %2F


async def test_a_broken_stream_goes_on_behind_the_last_event(gateway, client):
    gateway.on("GET /v1/events", stream((1, {"n": 1}), (2, {"n": 2})), stream((3, {"n": 3})))
    numbers = []

    async with client:
        async for event in client.watch(team="vision"):
            numbers.append(event["n"])
            if event["n"] == 3:
                break

    assert numbers == [1, 2, 3]
    assert [one.headers.get("Last-Event-ID") for one in gateway.seen] == [None, "2"]
    assert [one.query["team"] for one in gateway.seen] == ["vision", "vision"]


async def test_what_a_stream_passed_over_is_asked_for_again(gateway, client):
    passed_over = stream((5, {"n": 5}))
    assert passed_over.text is not None
    passed_over.text += 'event: resync\ndata: {"after":5}\n\nid: 6000\ndata: {"n": 6000}\n\n'
    gateway.on("GET /v1/events", passed_over, stream((6, {"n": 6}), (6000, {"n": 6000})))

    async with client:
        numbers = await numbers_until(client, 6000)

    assert numbers == [5, 6, 6000]
    assert [one.headers.get("Last-Event-ID") for one in gateway.seen] == [None, "5"]


async def test_a_stream_that_breaks_before_its_first_event_goes_on_where_it_began(gateway, client):
    begun = Answer(kind="text/event-stream", text=": muster\nid: 41\n\n: ping\n\n")
    gateway.on("GET /v1/events", begun, begun, stream((42, {"n": 42})))

    async with client:
        numbers = await numbers_until(client, 42)

    assert numbers == [42]
    assert [one.headers.get("Last-Event-ID") for one in gateway.seen] == [None, "41", "41"]


async def numbers_until(client: AsyncClient, last: int) -> list[int | None]:
    numbers: list[int | None] = []
    async for event in client.watch():
        numbers.append(event.get("n"))
        if event.get("n") == last:
            break
    return numbers


async def test_an_event_of_many_lines_is_one_event():
    lines = (b": ping\n", b"\n", b"id: 5\n", b'data: {"a":\n', b"data: 1}\n", b"\n")

    assert await told(*lines) == [("5", {"a": 1})]


async def test_an_id_without_data_is_told_once_and_a_named_event_is_no_event():
    lines = (b"id:5\n", b"\n", b": ping\n", b"\n", b"event: x\n", b"data: {}\n", b"\n")

    assert await told(*lines, b"data: {}\n", b"\n") == [("5", None), ("5", {})]


async def told(*lines: bytes) -> list[tuple[str, dict | None]]:
    async def source():
        for line in lines:
            yield line

    return [one async for one in events_of(source())]


async def test_all_events_are_read_page_by_page(gateway, client, monkeypatch):
    monkeypatch.setattr("muster.client.PAGE_ITEMS", 1)
    pages = [{"items": [{"id": 1}], "next_after": 1}, {"items": [], "next_after": 1}]
    gateway.on("GET /v1/events", *pages)

    async with client:
        assert await client.events() == [{"id": 1}]

    assert [one.query["after"] for one in gateway.seen] == ["0", "1"]


async def test_a_batch_gives_each_submission_a_key(gateway, client):
    gateway.on("POST /v1/workloads:batch", Answer({"items": [{"id": ID}]}, 202))

    async with client:
        assert await client.submit_batch([{"spec": {"name": "x"}}]) == [{"id": ID}]

    (item,) = gateway.seen[0].body["items"]
    assert item["spec"] == {"name": "x"}
    assert item["idempotency_key"]


def test_the_plain_client_does_the_same_without_async(gateway):
    gateway.on(f"GET /v1/workloads/{ID}", {"id": ID, "state": "running"}, {"state": "succeeded"})
    page = {"items": [{"id": 1}, {"id": 2}], "next_cursor": ""}
    gateway.on("GET /v1/workloads", page)

    with Client(gateway.address, "mk_test") as client:
        assert client.wait(ID, timeout_seconds=10)["state"] == "succeeded"
        assert [one["id"] for one in client.workloads(team="a")] == [1, 2]
        assert next(iter(client.workloads())) == {"id": 1}


def test_the_plain_client_submits_a_batch_for_a_team(gateway):
    gateway.on("POST /v1/workloads:batch", Answer({"items": [{"id": ID}]}, 202))

    with Client(gateway.address, "mk_operator") as client:
        assert client.submit_batch([{"spec": {"name": "x"}}], team="vision") == [{"id": ID}]

    assert gateway.seen[0].query == {"team": "vision"}


@pytest.mark.parametrize("name", [one for one in vars(Client) if not one.startswith("_")])
def test_the_plain_client_takes_what_the_other_takes(name: str):
    plain, other = (inspect.signature(getattr(one, name)) for one in (Client, AsyncClient))

    assert list(other.parameters) == list(plain.parameters)


def test_the_environment_wins_over_files_and_options_over_it(tmp_path: Path):
    user = tmp_path / ".config" / "muster"
    user.mkdir(parents=True)
    (user / "config.yaml").write_text("address: http://user/\nkey: mk_user\n")
    environment = {"HOME": str(tmp_path), "MUSTER_KEY": "mk_env"}

    found = find(environment=environment, folder=tmp_path)
    chosen = find("http://option", "mk_option", environment=environment, folder=tmp_path)

    assert (found.address, found.key) == ("http://user", "mk_env")
    assert (chosen.address, chosen.key) == ("http://option", "mk_option")


def test_a_local_system_is_found_from_any_folder_below(tmp_path: Path):
    local = tmp_path / ".muster"
    deep = tmp_path / "a" / "b"
    local.mkdir()
    deep.mkdir(parents=True)
    (local / "admin.key").write_text("mk_admin\n")
    state = {"gateway": "http://127.0.0.1:1", "admin_key_file": str(local / "admin.key")}
    (local / "state.json").write_text(json.dumps(state))

    found = find(environment={}, folder=deep)
    (local / "client.json").write_text(json.dumps({"key": "mk_team"}))
    with_client = find(environment={}, folder=deep)

    assert (found.address, found.key) == ("http://127.0.0.1:1", "mk_admin")
    assert (with_client.address, with_client.key) == ("http://127.0.0.1:1", "mk_team")


def test_nothing_found_says_what_to_do(tmp_path: Path):
    with pytest.raises(NotConfigured, match="make up"):
        find(environment={}, folder=tmp_path)
    with pytest.raises(NotConfigured, match="muster admin keys create"):
        find("http://x", environment={}, folder=tmp_path)


def test_a_broken_file_is_named(tmp_path: Path):
    (tmp_path / "muster").mkdir()
    (tmp_path / "muster" / "config.yaml").write_text("- a list")

    with pytest.raises(NotConfigured, match=r"config\.yaml"):
        find(environment={"XDG_CONFIG_HOME": str(tmp_path)}, folder=tmp_path)
