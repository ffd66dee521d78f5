"""Stores that are lost or go back, healed by the steps of docs/operate.md.

`tests/e2e/test_recover.py` proves each of these steps; here they follow other faults.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tests.support.faults.acts import Act, Broken, Took, decides_again
from tests.support.recovering import (
    COMPARE,
    DECIDE,
    HEALED_SECONDS_MAX,
    NAMED_SECONDS_MAX,
    lose_log,
    named_seconds,
    operations,
    put_back_alone,
)
from tests.support.work import fleet

NODES: Final = 24
MORE_ENDED: Final = 20
"""So many workloads end between a base backup and the crash."""


async def log_deleted(broken: Broken) -> list[Took]:
    """All of Kafka's data is gone: `muster-ops recover kafka`."""
    system = broken.system
    await lose_log(system)
    named = await named_seconds(system, DECIDE, "muster-ops recover kafka")
    asked = time.monotonic()
    await asyncio.to_thread(operations, system, "recover", "kafka")
    await broken.stage.nodes(list(fleet(NODES)))  # as agents do, again and again
    again = await decides_again(broken.stage, HEALED_SECONDS_MAX)
    return [_named(named), _healed(asked), again]


async def backup_restored(broken: Broken) -> list[Took]:
    """The database is that of its base backup; then it gets every commit since.

    Between the two nothing is accepted here: what an older database accepts is lost with it.
    """
    system = broken.system
    await asyncio.to_thread(system.postgres.take_backup)
    await broken.load.more(MORE_ENDED)
    await broken.load.rest()
    await asyncio.to_thread(system.crash)
    put_back_alone(system)
    await asyncio.to_thread(system.start)
    named = await named_seconds(system, COMPARE, "muster-ops recover postgres")
    asked = time.monotonic()
    await asyncio.to_thread(system.stop)
    await asyncio.to_thread(system.postgres.restore)
    await asyncio.to_thread(system.start)
    await broken.stage.disconnect()
    await broken.stage.connect()
    broken.load.go_on()
    again = await decides_again(broken.stage, HEALED_SECONDS_MAX)
    return [_named(named), _healed(asked), again]


def _named(seconds: float) -> Took:
    return Took(what="named", seconds=seconds, limit_seconds=NAMED_SECONDS_MAX)


def _healed(asked: float) -> Took:
    seconds = time.monotonic() - asked
    return Took(what="healed", seconds=seconds, limit_seconds=HEALED_SECONDS_MAX)


STORE_ACTS: Final[Mapping[str, Act]] = MappingProxyType(
    {"log-deleted": log_deleted, "backup-restored": backup_restored}
)
