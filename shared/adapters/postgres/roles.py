"""Makes the services' database roles: `python -m shared.adapters.postgres.roles apply`.

Lines `role=password` come on standard input; the database is that of MUSTER_DATABASE_URL, whose
role must own the tables and may create roles. What a role may do is given by migrations.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Mapping
from typing import Final

import asyncpg

from shared.events.grants import READER as READING_SERVICE
from shared.events.grants import principal_of

READER: Final = principal_of(READING_SERVICE)
LIMITS: Final = {
    "idle_in_transaction_session_timeout": "2s",
    "statement_timeout": "5s",
    "lock_timeout": "1s",
}
"""What a stuck service can hold; migrations, as the owner, have no limits."""
_ROLE: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
_PASSWORD: Final = re.compile(r"[A-Za-z0-9_.~-]+")
"""What stands in a URL as it is: a password is a part of MUSTER_DATABASE_URL."""


def role_sql(role: str, password: str) -> list[str]:
    """Statements that make a role or mend it; harmless when repeated."""
    exists = f"SELECT FROM pg_roles WHERE rolname = '{role}'"
    create = f"DO $$BEGIN IF NOT EXISTS ({exists}) THEN CREATE ROLE {role}; END IF; END$$"
    statements = [create, f"ALTER ROLE {role} LOGIN PASSWORD '{password}'"]
    if role == READER:
        return statements
    return statements + [f"ALTER ROLE {role} SET {name} = '{to}'" for name, to in LIMITS.items()]


def passwords_of(text: str) -> dict[str, str]:
    """Password by role, of lines `role=password`.

    Raises:
        ValueError: a name is none of a role, or a password would have to be quoted.
    """
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        role, _, password = line.strip().partition("=")
        if not role:
            continue
        if not _ROLE.fullmatch(role):
            raise ValueError(f"line {number}: {role!r} is no name of a role: a-z, 0-9 and _")
        if not _PASSWORD.fullmatch(password):
            raise ValueError(f"line {number}: the password of {role} may have A-Z a-z 0-9 _ . ~ -")
        found[role] = password
    return found


async def apply(url: str, passwords: Mapping[str, str]) -> None:
    """Make all roles so, or none."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            for role, password in passwords.items():
                for statement in role_sql(role, password):
                    await connection.execute(statement)
    finally:
        await connection.close()


def main() -> int:
    """Apply what stands on standard input; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m shared.adapters.postgres.roles", description=__doc__
    )
    parser.add_argument("action", choices=["apply"])
    parser.parse_args()
    try:
        passwords = passwords_of(sys.stdin.read())
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 5
    asyncio.run(apply(os.environ["MUSTER_DATABASE_URL"], passwords))
    return 0


if __name__ == "__main__":
    sys.exit(main())
