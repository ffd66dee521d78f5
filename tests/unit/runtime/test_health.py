"""/readyz says what a person must know of."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import TestClient, TestServer

from shared.runtime.health import health_app


@pytest.mark.parametrize(
    ("ready", "why_not", "answer"),
    [
        (True, "", (200, "ready\n")),
        (False, "", (503, "no\n")),
        (False, "the log begins at offset 4", (503, "the log begins at offset 4\n")),
    ],
)
async def test_who_is_not_ready_says_why_where_a_person_can_do_something(ready, why_not, answer):
    app = health_app(lambda: ready, lambda: why_not)

    async with TestClient(TestServer(app)) as client:
        reply = await client.get("/readyz")

        assert answer == (reply.status, await reply.text())
