"""Database roles: one for each service, and one that only reads, for `muster-ops`.

What they may do is given by migrations (migrations/rights.py). The time-outs bound what a stuck
service can hold; migrations, as the owner, have none.
"""

from shared.events.grants import READER as READING_SERVICE
from shared.events.grants import principal_of

OWNER = "muster"
READER = principal_of(READING_SERVICE)
LIMITS = {
    "idle_in_transaction_session_timeout": "2s",
    "statement_timeout": "5s",
    "lock_timeout": "1s",
}


def role_name(service: str) -> str:
    """The role of a service: `node-agent` has `muster_node_agent`."""
    return principal_of(service)


def role_sql(role: str, password: str) -> list[str]:
    """Statements that make a role or mend it; harmless when repeated."""
    exists = f"SELECT FROM pg_roles WHERE rolname = '{role}'"
    create = f"DO $$BEGIN IF NOT EXISTS ({exists}) THEN CREATE ROLE {role}; END IF; END$$"
    statements = [create, f"ALTER ROLE {role} LOGIN PASSWORD '{password}'"]
    if role == READER:
        return statements
    return statements + [f"ALTER ROLE {role} SET {name} = '{to}'" for name, to in LIMITS.items()]
