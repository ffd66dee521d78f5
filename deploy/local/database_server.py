"""What users of a database server ask of it, wherever it runs: addresses, roles, databases, SQL.

The superuser is `muster`; every service has a role of its own. All passwords follow from the one
in the server's folder.
"""

import hashlib
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

from deploy.local.processes import LocalError
from deploy.local.roles import OWNER, role_name, role_sql

OPTIONS = ("-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1")
"""Of psql: what it prints is the rows and nothing else, and it stops at the first error."""


class DatabaseServer(ABC):
    """A PostgreSQL on a port of 127.0.0.1.

    `folder` holds its password and `port` is where clients find it.
    """

    folder: Path
    port: int

    def url(self, role: str = OWNER, database: str = "muster") -> str:
        """The address for a service's role, or for the owner of everything."""
        name = role if role == OWNER else role_name(role)
        return f"postgresql://{name}:{self._password(name)}@127.0.0.1:{self.port}/{database}"

    def create_roles(self, services: Iterable[str]) -> None:
        """Make `muster_<service>` for each, with its password and time-outs; again is harmless."""
        names = map(role_name, services)
        self.execute(*(line for name in names for line in role_sql(name, self._password(name))))

    def has_database(self, name: str) -> bool:
        """Whether a database is there."""
        return bool(self.execute(f"SELECT 1 FROM pg_database WHERE datname = '{name}'"))  # noqa: S608  # ours

    def create_database(self, name: str, template: str = "template1") -> None:
        """Make a database, as a copy of another."""
        self.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"', database="postgres")

    def drop_database(self, name: str) -> None:
        """Remove a database, whoever is connected."""
        self.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)', database="postgres")

    def execute(self, *statements: str, database: str = "postgres") -> str:
        """Run statements as the superuser, each on its own; returns the rows as text.

        Raises:
            LocalError: one failed.
        """
        done = self._psql(*statements, database=database)
        if done.returncode != 0:
            raise LocalError(f"psql: {done.stderr.strip()}")
        return done.stdout.strip()

    def answers(self) -> bool:
        """Whether it takes connections."""
        return self._psql("SELECT 1", database="postgres").returncode == 0

    @abstractmethod
    def _psql(self, *statements: str, database: str) -> subprocess.CompletedProcess[str]:
        """Run statements by psql, each on its own."""

    def _password(self, role: str) -> str:
        secret = (self.folder / "password").read_text()
        if role == OWNER:
            return secret
        return hashlib.sha256(f"{secret}:{role}".encode()).hexdigest()[:32]
