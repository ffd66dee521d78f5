"""A broker and a database of a benchmark's own, empty and migrated."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.local.kafka import LocalKafka
from deploy.local.postgres import LocalPostgres
from deploy.local.prepare import migrate
from deploy.local.services import ROLES
from tests.fixtures.servers import Database

NAME: Final = "muster"


@contextmanager
def own_servers() -> Iterator[tuple[Path, LocalKafka, Database]]:
    """Their folder, which goes with them at the end of the block, and both."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-", dir="/var/tmp") as text:
        folder = Path(text)
        broker, server = LocalKafka(folder / "kafka"), LocalPostgres(folder / "postgres")
        broker.start()
        server.start()
        try:
            server.create_roles(ROLES)
            server.create_database(NAME)
            migrate(server.url(database=NAME))
            yield folder, broker, Database(server, NAME)
        finally:
            server.stop()
            broker.stop()
