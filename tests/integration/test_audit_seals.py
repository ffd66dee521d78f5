"""The audit of a running service is changed behind its back: the checker finds each tampering."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import asyncpg
import pytest

from operations.check.audit import check_chain, check_seals, digest_of
from operations.check.database import read_rows
from operations.check.log import LogReader
from operations.check.model import Evidence, Log, Violation
from tests.support.chain import Chain

ROWS = 300
FIELDS = (
    "shard, seq, event_id::text AS event_id, subject, version, kind, before, after, actor, at_ms,"
    " epoch, digest"
)


async def found(chain: Chain, log: Log) -> list[Violation]:
    """What I7 finds in the log and the tables of now."""
    evidence = Evidence(rows=await read_rows(chain.database.url()), log=log)
    return [*check_chain(evidence).violations, *check_seals(evidence).violations]


@pytest.fixture
async def audited(chain: Chain) -> Chain:
    """A service that has written `ROWS` audit rows, and was told to stop."""
    process = chain.start("admission")
    for first in range(0, ROWS, 100):
        await chain.feed(first, count=100)
        await asyncio.sleep(1.2)
    async with asyncio.timeout(30):
        while len(chain.effects("admission")) < ROWS:
            await asyncio.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    await asyncio.to_thread(process.wait, 20)
    return chain


async def change(chain: Chain, rows: Callable[[list[dict]], list[dict]]) -> None:
    """Write the audit anew, with every digest computed as the service would."""
    connection = await asyncpg.connect(chain.database.url())
    try:
        read = await connection.fetch(f"SELECT {FIELDS} FROM admission.audit ORDER BY seq")
        await connection.execute("DELETE FROM admission.audit")
        digest = b""
        for row in rows([dict(one) for one in read]):
            digest = digest_of(digest, row)
            values = [*(row | {"digest": digest}).values()]
            places = ", ".join(f"${n}" for n in range(1, len(values) + 1))
            sql = f"INSERT INTO admission.audit VALUES ({places.replace('$3', '$3::text::uuid')})"
            await connection.execute(sql, *values)
    finally:
        await connection.close()


def changed(rows: list[dict]) -> list[dict]:
    return [row | {"actor": "mallory"} if row["seq"] == 40 else row for row in rows]


def inserted(rows: list[dict]) -> list[dict]:
    copy = rows[100] | {"subject": "w" + "z" * 26}
    more = [*rows[:100], copy, *rows[100:]]
    return [row | {"seq": seq} for seq, row in enumerate(more, 1)]


async def test_each_tampering_is_found(audited: Chain) -> None:
    reader = LogReader(bootstrap=audited.kafka, prefix=audited.prefix)
    log = await reader.extend(await reader.ends())
    assert [] == await found(audited, log)
    audited.database.execute("CREATE TABLE public.kept AS SELECT * FROM admission.audit")
    restore = (
        "DELETE FROM admission.audit",
        "INSERT INTO admission.audit SELECT * FROM public.kept",
    )
    newest = "DELETE FROM admission.audit WHERE seq = (SELECT max(seq) FROM admission.audit)"

    audited.database.execute(newest)
    assert f"audit row {ROWS} was sealed and is gone" in (await found(audited, log))[0].detail
    audited.database.execute(*restore)

    await change(audited, changed)  # all rows from the 40th on are computed anew
    recomputed = await found(audited, log)
    assert 1 == len(recomputed)
    assert "has another digest than its seal" in recomputed[0].detail
    audited.database.execute(*restore)

    audited.database.execute("UPDATE admission.audit SET actor = 'mallory' WHERE seq = 40")
    assert (
        "audit row 40 of admission/cell-0 is not as it was"
        in (await found(audited, log))[0].detail
    )
    audited.database.execute(*restore)

    await change(audited, inserted)
    assert "has another digest than its seal" in (await found(audited, log))[0].detail
    audited.database.execute(*restore)

    assert [] == await found(audited, log)
