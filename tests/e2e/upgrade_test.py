"""`make upgrade-test FROM=REV`: every service rolls from REV to this checkout and back under load.

A system runs on the code and the tables of REV. While it is loaded the database is migrated by
this checkout, topics and rules are made, and each process is ended in order and started on the
other code, consumers before producers (docs/operate.md): forth, back, and forth again. Green when
all that was accepted ends, nothing is doubled, no dead letter is written and the check is clean.
Exit code 0 green, 1 red.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from typing_extensions import override

from deploy.local.keeper import Keeper
from deploy.local.prepare import admit, create_topics, migrate
from deploy.local.processes import LocalError, Program
from deploy.local.services import CLUSTER, KAFKA_ROLES, ROLES, SERVICES, Service
from deploy.local.system import DATABASE, LocalSystem
from tests.support.checkouts import checkout_of
from tests.support.killing import checked, doubled, settle
from tests.support.recovering import HttpLoad
from tests.support.system import Stage
from tests.support.work import fleet

ORDER: Final = (
    "gateway-projection",
    "monitoring",
    "quota",
    "preemption",
    "binder",
    "placement",
    "admission",
    "gateway",
)
READY_SECONDS: Final = 60.0
LOG_LINES: Final = 12
SETTLE_SECONDS: Final = 120.0


class RollingSystem(LocalSystem):
    """Each service runs on the code of one of two checkouts."""

    def __init__(self, folder: Path, old: Path, services: Sequence[Service]) -> None:
        super().__init__(folder, services=services, tell=lambda _: None)
        self._old = old
        self._new: set[str] = {CLUSTER}

    def roll(self, name: str, *, new: bool) -> None:
        """End a process in order, and start it on the other code.

        Raises:
            LocalError: it does not become ready; with the end of its log.
        """
        self._new.discard(name)
        if new:
            self._new.add(name)
        service = next(one for one in self._services if one.name == name)
        self._keepers.pop(name).stop()
        keeper = Keeper(self._program(service), self._changed)
        self._keepers[name] = keeper
        keeper.start()
        try:
            self.wait_ready(READY_SECONDS)
        except LocalError as error:
            lines = self.log(name).read_text(errors="replace").splitlines()[-LOG_LINES:]
            raise LocalError("\n".join([str(error), *lines])) from error

    def upgrade_stores(self) -> None:
        """Tables, topics, rules and users of this checkout, while services run."""
        super()._prepare()

    @override
    def _prepare(self) -> None:
        """As the old checkout does."""
        self.postgres.create_roles(ROLES)
        self.postgres.create_database(DATABASE)
        migrate(self.postgres.url(database=DATABASE), self._old)
        create_topics(self.kafka.administrator, self._old)
        passwords = self.kafka.passwords(KAFKA_ROLES)
        admit(self.kafka.administrator, passwords, self._old)

    @override
    def _program(self, service: Service) -> Program:
        program = super()._program(service)
        if service.name not in self._new:
            program.folder = self._old
            program.environment = {**program.environment, "PYTHONPATH": str(self._old)}
        return program


async def _roll_all(system: RollingSystem, names: Sequence[str], *, new: bool) -> None:
    for name in names if new else reversed(names):
        started = time.monotonic()
        await asyncio.to_thread(system.roll, name, new=new)
        where = "forth" if new else "back"
        print(f"{where:5} {name:20} ready after {time.monotonic() - started:4.1f} s", flush=True)


async def _dead_letters(stage: Stage) -> int:
    schemas = ("admission", "quota", "placement", "binder", "monitoring", "preemption", "gateway")
    counts = [
        await stage.rows.fetchval(f"SELECT count(*) FROM {one}.outbox WHERE topic LIKE '%.dlq'")
        for one in schemas
    ]
    return sum(counts)


async def run(revision: str, names: Sequence[str]) -> int:
    """The whole story; prints a line for each process and a verdict."""
    with (
        tempfile.TemporaryDirectory(prefix="muster-upgrade-", dir="/var/tmp") as name,
        checkout_of(revision, Path(name)) as old,
    ):
        services = [one for one in SERVICES if one.name != "fleet"]
        system = RollingSystem(Path(name) / "system", old, services)
        try:
            await asyncio.to_thread(system.start)
            await asyncio.to_thread(system.wait_ready, READY_SECONDS)
            return await _story(system, names)
        finally:
            await asyncio.to_thread(system.discard)


async def _story(system: RollingSystem, names: Sequence[str]) -> int:
    stage = Stage(system)
    await stage.connect()
    try:
        return await _rolled(system, stage, names)
    finally:
        await stage.disconnect()


async def _rolled(system: RollingSystem, stage: Stage, names: Sequence[str]) -> int:
    await stage.organise()
    await stage.nodes(list(fleet(24)))
    load = HttpLoad(stage, "upgrade")
    loading = asyncio.create_task(load.run())
    started = time.monotonic()
    await asyncio.to_thread(system.upgrade_stores)
    print(f"tables, topics, rules: {time.monotonic() - started:.1f} s", flush=True)
    for new in (True, False, True):
        await _roll_all(system, names, new=new)
    load.stop()
    await loading
    result = {
        "accepted": len(load.accepted),
        "not_over": await settle(stage, load.accepted, SETTLE_SECONDS),
        "doubled": await doubled(stage),
        "dead_letters": await _dead_letters(stage),
        "check": await asyncio.to_thread(checked, stage),
    }
    print(json.dumps(result))
    faults = (result["not_over"], result["doubled"], result["dead_letters"])
    green = not any(faults) and result["check"] == "clean" and load.accepted
    print("GREEN" if green else "RED")
    return 0 if green else 1


def main() -> None:
    """Parse options, run, exit with the verdict."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="revision", required=True, help="revision of git")
    parser.add_argument("--only", choices=ORDER, help="roll this process alone")
    options = parser.parse_args()
    names = [options.only] if options.only else ORDER
    try:
        sys.exit(asyncio.run(run(options.revision, names)))
    except LocalError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
