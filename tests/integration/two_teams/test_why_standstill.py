"""`why` on a real database where nothing of a queue is started: everybody there hears so."""

from __future__ import annotations

from functools import partial

from shared.events import topics
from tests.support import facts as telling
from tests.support.gateway import Gateway, publish_facts, running_projection, until
from tests.support.two_teams import START, budget_told, queue_of, queued, refused, running


async def test_who_waits_in_a_held_queue_hears_so_whatever_was_recorded_of_him(gateway: Gateway):
    red, blue = await gateway.key("red", "viewer"), await gateway.key("blue", "viewer")
    body = queue_of("red", held=True)
    reply = await gateway.call("PATCH", "/v1/queues/red", body, headers={"If-Match": '"3"'})
    assert reply.status == 200, reply.body
    spent = (topics.QUOTA_FACTS, budget_told("blue", 100))
    facts = [
        queued("w1"),
        queued("w2"),
        *running("w1", "red", START),
        *running("w2", "red", START),
    ]
    facts += [queued(name, after=1) for name in ("w3", "w4", "w5", "w6")]
    facts += [queued("w7", "blue"), spent, refused("w4"), refused("w5", promised_start_ms=START)]
    facts += [telling.refused("w6", "no nodes", "wait for nodes", {})]

    async def answer(workload: str, key: str, reason: str, recorded: int):
        """Once all of it is known; the facts are of several topics."""
        body = (await gateway.call("GET", f"/v1/workloads/{workload}/why", key=key)).body
        if not body.get("place") or len(body["history"]) < recorded:
            return None
        return body if reason == body["reason"] else None

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)
        of_red = (("w3", 0), ("w4", 1), ("w5", 1), ("w6", 1))
        held = [
            await until(partial(answer, one, red, "QueueHeld", count)) for one, count in of_red
        ]
        poor = await until(partial(answer, "w7", blue, "BudgetSpent", 0))

    for one in held:
        assert "queue red is held: nothing of it is started" == one["message"]
        assert "an administrator must release the queue" == one["next_step"]
    for one in (*held, poor):
        assert ([], "", None) == (one["frees_next"], one["owed"], one["promised_start_ms"])
    assert poor["message"].startswith("budget of team blue for 2026-11 is spent (100 GPU-hours)")
