"""Headers of bytes that are no text: refused as problems, before and after authentication."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from services.gateway.app.context import bad_parameter
from services.gateway.http.problems import Problem, invalid
from shared.core.model.decision import FieldError
from tests.support.bare_gateway import Parts, served

KEY = b"Authorization: Bearer " + b"a" * 43 + b"\r\n"
JSON = b"Content-Type: application/json\r\nContent-Length: 2\r\n" + KEY


async def sent(port: int, line: bytes, headers: bytes, body: bytes) -> tuple[int, Any]:
    """Status and problem of the answer to these very bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    more = b"Host: x\r\nConnection: close\r\n"
    writer.write(line + b" HTTP/1.1\r\n" + more + headers + b"\r\n" + body)
    head, _, found = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    assert b"application/problem+json" in head, head + found
    return int(head.split()[1]), msgspec.json.decode(found)


@pytest.mark.parametrize("path", [b"/v1/workloads", b"/metrics", b"/nothing"])
async def test_a_scheme_of_such_bytes_is_a_caller_without_a_key_and_no_failure(path):
    parts = Parts()

    async with served(parts) as port:
        status, problem = await sent(port, b"GET " + path, b"Authorization: \xff abc\r\n", b"")

    assert (401, "the scheme must be Bearer", []) == (status, problem["detail"], parts.failed)


async def test_a_value_of_such_bytes_is_told_back_in_escapes():
    parts, headers = Parts(), b"If-None-Match: \xff7\r\n" + JSON

    async with served(parts) as port:
        status, problem = await sent(port, b"PATCH /v1/flavors/h100", headers, b"{}")

    error = {"field": "If-None-Match", "value": r"\udcff7", "rule": "must be *"}
    assert (400, [error], []) == (status, problem["errors"], parts.failed)


def test_no_text_of_a_problem_keeps_it_from_being_sent():
    broken = "a\udcffé"
    error = FieldError(field=broken, value=broken, rule=broken)

    with pytest.raises(Problem) as raised:
        bad_parameter("Last-Event-ID", broken, "must be the id of an event")
    for problem in (raised.value, invalid([error]), Problem(400, "invalid", broken)):
        assert rb"a\\udcff" in problem.body()
        assert "é".encode() in problem.body()
