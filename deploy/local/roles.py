"""Database roles: one for each service, and one that only reads, for `muster-ops`.

What they may do is given by migrations (migrations/rights.py), their time-outs by
shared/adapters/postgres/roles.py.
"""

from shared.adapters.postgres.roles import READER, role_sql
from shared.events.grants import principal_of

__all__ = ["OWNER", "READER", "role_name", "role_sql"]

OWNER = "muster"


def role_name(service: str) -> str:
    """The role of a service: `node-agent` has `muster_node_agent`."""
    return principal_of(service)
