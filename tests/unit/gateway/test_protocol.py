"""HTTP itself: entity tags, gzip, HEAD, and answers to what is too long or no HTTP at all."""

from __future__ import annotations

import asyncio
import gzip
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from services.gateway.http.route import NAME_LENGTH_MAX, SEQ_MAX
from services.gateway.protocol import compress, live_tag, revalidated, versions_named
from services.gateway.protocol.broken import FIELD_BYTES_MAX, TARGET_BYTES_MAX
from shared.events.organisation import FlavorApplied
from tests.support.bare_gateway import Parts, served

KEY = {"Authorization": "Bearer " + "a" * 43}
PROBLEM = "application/problem+json"


@dataclass(slots=True, kw_only=True)
class Client:
    """Asks the real application; `port` for bytes that no client would send."""

    parts: Parts
    port: int
    http: aiohttp.ClientSession

    async def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, Any, bytes]:
        sent = {**KEY, **{name.replace("_", "-"): text for name, text in headers.items()}}
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self.http.request(method, url, headers=sent) as reply:
            return reply.status, reply.headers, await reply.read()

    async def raw(self, data: bytes) -> tuple[int, bytes, Any]:
        """Status, head and problem of what is answered to these very bytes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return int(head.split()[1]), head, msgspec.json.decode(body)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    parts = Parts()
    parts.organisation.flavors = {
        f"f{number}": FlavorApplied(name=f"f{number}", version=3, products=("H100",))
        for number in range(30)
    }
    async with served(parts) as port, aiohttp.ClientSession(auto_decompress=False) as http:
        yield Client(parts=parts, port=port, http=http)


async def test_a_document_that_was_read_before_is_not_sent_again(client: Client):
    status, headers, body = await client.ask("/v1/flavors/f1")
    again = await client.ask("/v1/flavors/f1", If_None_Match=f'"1", {headers["ETag"]}')
    other = await client.ask("/v1/flavors/f1", If_None_Match='"2"')

    assert (200, '"3"', True) == (status, headers["ETag"], bool(body))
    assert (304, '"3"', b"") == (again[0], again[1]["ETag"], again[2])
    assert (200, body) == (other[0], other[2])


async def test_a_list_has_a_weak_tag_of_what_it_says(client: Client):
    _, headers, _ = await client.ask("/v1/flavors")
    same = await client.ask("/v1/flavors", If_None_Match=headers["ETag"])
    del client.parts.organisation.flavors["f1"]
    changed = await client.ask("/v1/flavors", If_None_Match=headers["ETag"])

    assert headers["ETag"].startswith('W/"')
    assert (304, 200) == (same[0], changed[0])
    assert headers["ETag"] != changed[1]["ETag"]


async def test_head_answers_as_get_does_without_the_body(client: Client):
    get, head = await client.ask("/v1/flavors/f1"), await client.ask("/v1/flavors/f1", "HEAD")
    lost = await client.ask("/v1/flavors/none", "HEAD")

    assert (200, b"", get[1]["ETag"]) == (head[0], head[2], head[1]["ETag"])
    assert get[1]["Content-Length"] == head[1]["Content-Length"]
    assert (404, b"") == (lost[0], lost[2])


async def test_a_large_answer_is_gzipped_for_who_takes_it(client: Client):
    plain = await client.ask("/v1/flavors", Accept_Encoding="br, gzip;q=0")
    small = await client.ask("/v1/flavors/f1", Accept_Encoding="gzip")
    zipped = await client.ask("/v1/flavors", Accept_Encoding="br;q=1, gzip;q=0.5")

    assert "Content-Encoding" not in plain[1]
    assert "Content-Encoding" not in small[1]
    assert ("gzip", "Accept-Encoding") == (zipped[1]["Content-Encoding"], zipped[1]["Vary"])
    assert plain[2] == gzip.decompress(zipped[2])
    assert len(zipped[2]) < len(plain[2]) / 4


@pytest.mark.parametrize("secret", [{"Cache-Control": "no-store"}, {"ETag": '"1"'}])
def test_a_secret_and_what_a_strong_tag_names_are_never_compressed(secret: dict[str, str]):
    request = make_mocked_request("GET", "/", headers={"Accept-Encoding": "*"})
    response = web.json_response(["x"] * 1000)
    kept = web.json_response(["x"] * 1000, headers=secret)

    compress(request, response)
    compress(request, kept)

    assert (True, False) == (response.compression, kept.compression)


def test_a_tag_of_live_numbers_begins_with_the_version_of_its_document():
    request = make_mocked_request("GET", "/")

    first, second = (
        revalidated(request, web.json_response([number], headers=live_tag(7))) for number in (1, 2)
    )

    assert first.headers["ETag"] != second.headers["ETag"]
    assert ['"7"'] == versions_named(first.headers["ETag"])
    assert ['"1"', '"2"'] == versions_named('"1", W/"2.abc"')


def test_what_was_not_read_has_no_tag():
    request = make_mocked_request("POST", "/", headers={"If-None-Match": "*"})

    assert "ETag" not in revalidated(request, web.json_response([])).headers


async def test_an_address_that_is_too_long_is_414(client: Client):
    path = b"/v1/flavors?team=" + b"x" * TARGET_BYTES_MAX

    status, head, problem = await client.raw(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")

    rule = f"the address must be at most {TARGET_BYTES_MAX} bytes"
    assert (414, rule) == (status, problem["detail"])
    assert PROBLEM.encode() in head


async def test_a_header_that_is_too_long_is_431(client: Client):
    field = b"A: " + b"x" * FIELD_BYTES_MAX

    status, _, problem = await client.raw(b"GET / HTTP/1.1\r\n" + field + b"\r\n\r\n")

    assert (431, f"a header must be at most {FIELD_BYTES_MAX} bytes") == (
        status,
        problem["detail"],
    )


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\r\n\r\n", b"GET / HTTP/1.1\r\nA B\r\n\r\n"])
async def test_what_is_no_http_is_a_problem_too(client: Client, data: bytes):
    status, head, problem = await client.raw(data)

    assert (400, "urn:muster:problem:malformed") == (status, problem["type"])
    assert b"Server: muster\r\n" in head


async def test_no_answer_tells_which_versions_run(client: Client):
    paths = ("/healthz", "/v1/flavors", "/v1/flavors/none", "/nothing", "/openapi.json")

    replies = [await client.ask(path) for path in paths]

    assert {"muster"} == {headers["Server"] for _, headers, _ in replies}


async def test_lengths_hold_as_documented(client: Client):
    name = "x" * (NAME_LENGTH_MAX + 1)

    for path in (f"/v1/flavors/{name}", f"/v1/teams?team={name}"):
        status, _, body = await client.ask(path)
        (error,) = msgspec.json.decode(body)["errors"]
        assert (400, f"must be at most {NAME_LENGTH_MAX} characters") == (status, error["rule"])
        assert path.startswith("/v1/flavors") == (error["field"] == "name")
    key = await client.ask("/v1/workloads?label=" + "x".ljust(2048, ","))
    assert 200 == key[0]


KINDS = "must be one of training, inference, batch-inference, notebook"
ONCE = "must not be given twice"


TAGS = 'must be * or ETags in quotes, such as "3"'


@pytest.mark.parametrize(
    ("path", "value", "rule"),
    [
        ("GET /v1/workloads?kind=trainig", "trainig", KINDS),
        ("GET /v1/workloads?label=a=1&label=a=2", "a=1, a=2", ONCE),
        ("GET /v1/workloads?queue=red&queue=blue", "red, blue", ONCE),
        ("GET /v1/nodes?limit=1&limit=2", "1, 2", ONCE),
        ("PUT /v1/priority-classes/p?force=yes", "yes", "must be true or false"),
        ("GET /v1/events Last-Event-ID", "x", "must be the id of an event"),
        ("PUT /v1/flavors/f1 If-None-Match", "AAA", "must be *"),
        ("PUT /v1/flavors/f1 If-Match", "3", TAGS),
        ("PUT /v1/flavors/f1 If-Match", '"3", x', TAGS),
    ],
)
async def test_a_parameter_that_breaks_its_rule_is_refused(
    client: Client, path: str, value: str, rule: str
):
    method, address, *header = path.split()

    status, _, body = await client.ask(address, method, **dict.fromkeys(header, value))

    (error,) = msgspec.json.decode(body)["errors"]
    assert (400, value, rule) == (status, error["value"], error["rule"])
    assert error["field"] in path


@pytest.mark.parametrize("tags", ["*", '"3"', 'W/"3.abc", "4"', '"1","3"'])
async def test_the_tags_of_a_condition_are_taken(client: Client, tags: str):
    status, _, body = await client.ask("/v1/flavors/f1", "PUT", If_Match=tags)

    assert 400 == status  # it has no body; what is wrong is not the condition
    assert b"If-Match" not in body


async def test_the_largest_id_of_an_event_is_taken_and_no_larger_one(client: Client):
    asked = [await client.ask(f"/v1/events?after={SEQ_MAX + more}") for more in (0, 1)]

    assert [200, 400] == [status for status, _, _ in asked]


async def test_a_body_that_is_too_large_is_told_before_all_of_it_is_sent(client: Client):
    data = io.BytesIO(b"x" * (8 << 20))
    url = f"http://127.0.0.1:{client.port}/v1/workloads:batch"

    async with client.http.post(url, data=data, headers=KEY) as reply:
        problem = await reply.json(content_type=PROBLEM)

    assert (413, "urn:muster:problem:too-large") == (reply.status, problem["type"])
