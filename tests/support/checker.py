"""The checker at work on a planted world: its evidence, and which invariants are violated."""

import asyncio

from operations.check.database import read_rows
from operations.check.model import Evidence
from operations.check.runner import judge
from tests.fixtures.servers import Database
from tests.unit.operations.world import World


def violated(evidence: Evidence) -> dict[str, list[str]]:
    return {
        result.id: [f"{one.subject}: {one.detail}" for one in result.violations]
        for result in judge(evidence)
        if not result.ok
    }


def read(database: Database, world: World, *extra: str) -> Evidence:
    database.execute("BEGIN", *world.sql, *extra, "COMMIT")
    return world.evidence(asyncio.run(read_rows(database.url())))
