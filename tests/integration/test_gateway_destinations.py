"""Destinations by HTTP: documents are judged, a test goes to the log, their standing is read."""

from shared.events import notifications, topics
from tests.support.gateway import Gateway, publish_facts, running_projection, until
from tests.support.records import first_records

FIELDS = {
    "format": "webhook",
    "url": "https://hooks.example.org/x",
    "url_from": "",
    "secret": "key",
    "team": "",
    "events": ["failed"],
    "min_severity": "info",
    "digest_seconds": 0,
}


async def test_bad_documents_are_refused_with_field_value_and_rule(gateway: Gateway) -> None:
    for change, field, rule in (
        ({"url": "https://me:hunter2@hooks.example.org/"}, "url", "user info"),
        ({"url": "https://169.254.169.254/latest"}, "url", "ever sent to"),
        ({"url": "https://10.0.0.1/"}, "url", "MUSTER_NOTIFICATION_NETWORKS"),
        ({"url": ""}, "url", "either"),
        ({"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, "secret", "never the secret"),
        ({"secret": ""}, "secret", "signed"),
        ({"events": ["exploded"]}, "events[0]", "must be one of"),
        ({"min_severity": "loud"}, "min_severity", "must be one of"),
        ({"digest_seconds": 100_000}, "digest_seconds", "must be 0 to"),
        ({"team": "nope"}, "team", "not a team"),
    ):
        answer = await gateway.call("PUT", "/v1/notifications/chat", FIELDS | change)
        told = str(answer.body)
        assert 400 == answer.status
        assert any(one["field"] == field and rule in one["rule"] for one in answer.body["errors"])
        assert "hunter2" not in told
        assert "MfKQ9r8G" not in told
    assert 404 == (await gateway.call("GET", "/v1/notifications/chat")).status


async def test_a_destination_is_applied_tried_and_read_by_its_team(gateway: Gateway) -> None:
    await gateway.key("red", "member")
    first = await gateway.call("PUT", "/v1/notifications/chat", FIELDS)
    await gateway.call("PUT", "/v1/notifications/red-chat", FIELDS | {"team": "red"})
    missing = await gateway.call("POST", "/v1/notifications/char/test")
    tried = await gateway.call("POST", "/v1/notifications/chat/test")
    member = await gateway.key("red", "member")
    refused = await gateway.call("POST", "/v1/notifications/red-chat/test", key=member)
    commands = await first_records(gateway.settings, topics.NOTIFICATION_COMMANDS, 1)
    told = notifications.DestinationTold(
        name="chat", at_ms=5, waiting=3, failing_since_ms=2, dead=True, problem="answered 500"
    )

    async def known() -> bool:
        items = (await gateway.call("GET", "/v1/destinations")).body["items"]
        return ("dead", "answered 500") == (items[0]["state"], items[0]["problem"])

    async with running_projection(gateway.settings):
        facts = [(topics.NOTIFICATION_FACTS, told)]
        await publish_facts(gateway.settings, facts, source="t1", at_ms=1_000)
        await until(known)
    own = (await gateway.call("GET", "/v1/destinations", key=member)).body["items"]
    document = (await gateway.call("GET", "/v1/notifications", key=member)).body["items"]

    assert (201, 404, 202, 403) == (first.status, missing.status, tried.status, refused.status)
    assert 1 == len(commands)
    assert ["red-chat"] == [one["name"] for one in own] == [one["name"] for one in document]
    assert 409 == (await gateway.call("DELETE", "/v1/teams/red")).status
    assert 204 == (await gateway.call("DELETE", "/v1/notifications/red-chat")).status
