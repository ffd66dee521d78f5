"""A command in a pod is in the audit of the gateway before it runs."""

import contextlib

from shared.core.model.nouns import PodSet
from shared.ports.pod_exec import CommandEnded
from tests.fixtures.servers import Database
from tests.support import facts as telling
from tests.support.gateway import Gateway, publish_facts, running_projection, until

OF_COMMANDS = (
    "SELECT concat_ws(' ', kind, actor, subject, before, after) FROM gateway.audit"
    " WHERE kind = 'exec'"
)


class Pods:
    """Runs nothing, and notes what the audit says when it is asked to."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.audited: list[str] = []

    @contextlib.asynccontextmanager
    async def run(self, request):
        self.audited.append(self.database.execute(OF_COMMANDS))

        async def pieces():
            yield CommandEnded(0)

        yield pieces()

    async def close(self):
        pass


async def test_who_runs_what_where_is_in_the_audit_before_it_runs(
    gateway: Gateway, database: Database
):
    pods = Pods(database)
    gateway.context.pod_exec = pods
    key = await gateway.key("red", "member")
    facts = [telling.queued("w1", pods=PodSet(), at_ms=1_000)]

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="placement", at_ms=1_000)

        async def known() -> bool:
            return (await gateway.call("GET", "/v1/workloads/w1")).status == 200

        await until(known)
        body = {"command": ["cat", "/etc/é'\n"], "rank": 3}
        for _ in range(2):
            assert (
                200 == (await gateway.call("POST", "/v1/workloads/w1/exec", body, key=key)).status
            )

    prefix = key.split("_")[1]
    words = '["cat","/etc/é\'\\n"]'
    assert f"exec {prefix} exec/w1 attempt 0 rank 3 {words}" == pods.audited[0].strip()
    assert 2 == database.execute(OF_COMMANDS).count("exec/w1")
