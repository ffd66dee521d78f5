"""`muster notifications`, and the test of a destination."""

import pytest

STANDING = {
    "name": "chat",
    "team": "vision",
    "state": "ok",
    "at_ms": 2_000,
    "waiting": 0,
    "dropped": 0,
    "delivered_at_ms": 1_999,
    "failing_since_ms": 0,
    "problem": "",
}
FAILING = STANDING | {
    "state": "failing",
    "waiting": 3,
    "failing_since_ms": 1_500,
    "problem": "answered 500",
}
TESTS = "POST /v1/notifications/chat/test"


def test_destinations_are_listed_with_what_is_wrong(muster, gateway):
    gateway.on("GET /v1/destinations", {"items": [FAILING]})
    told = muster("notifications").out
    assert "failing" in told
    assert "answered 500" in told


@pytest.mark.parametrize(("standing", "code"), [(STANDING, 0), (FAILING, 1)])
def test_a_test_says_by_its_exit_code_whether_it_was_taken(muster, gateway, standing, code):
    gateway.on(TESTS, {"name": "chat", "at_ms": 2_000})
    gateway.on("GET /v1/destinations", {"items": [standing]})
    done = muster("admin", "notifications", "test", "chat")
    assert code == done.code
    assert ("not taken: answered 500" in done.err) is bool(code)


def test_what_was_told_before_the_test_says_nothing_of_it(muster, gateway):
    gateway.on(TESTS, {"name": "chat", "at_ms": 2_001})
    gateway.on("GET /v1/destinations", {"items": [STANDING]})
    assert 101 == muster("admin", "notifications", "test", "chat", "--timeout", "1").code
