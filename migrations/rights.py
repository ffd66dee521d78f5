"""Who may do what in the database: the one table, as events/grants.py is for the broker.

A service has its own schema and nothing else. Functions that run with the owner's rights
(SECURITY DEFINER) are granted by name, PUBLIC may run none. The reader (`muster-ops`) sees all
tables but no digest of a key, and runs nothing. A migration that makes a table grants it by hand;
one that makes a function that a service calls grants it by name, and both are told here:
tests/integration/test_database_rights.py compares every role, table, column and function.
Source: PostgreSQL 15, "Privileges" and "Writing SECURITY DEFINER Functions Safely".
"""

from __future__ import annotations

from typing import Final

READER: Final = "muster_operations"
FIRST_SCHEMAS: Final = (
    "admission",
    "binder",
    "cluster_watcher",
    "gateway",
    "monitoring",
    "placement",
    "preemption",
    "quota",
)
"""Those that are there before migration 0049, which the migrations before it go through."""
SERVICE_SCHEMAS: Final = (*FIRST_SCHEMAS, "native", "notifications")
SECRET_COLUMNS: Final = frozenset({("gateway", "api_key", "digest")})
"""(schema, table, column): not for the reader."""
ALL: Final = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE"})
READ: Final = frozenset({"SELECT"})
APPEND: Final = frozenset({"SELECT", "INSERT"})
_OF_PROTOCOL: Final = {
    "audit": APPEND,
    "lease_history": APPEND,
    "inbox": ALL - {"DELETE"},
    "outbox": ALL - {"DELETE"},
}
_OF_SCHEMA: Final = {
    ("placement", "node"): READ,
    ("placement", "gpu"): READ,
    ("placement", "quota_node"): READ,
    ("placement", "usage"): READ,
    ("placement", "allocation"): ALL - {"UPDATE"},
    ("gateway", "told_start"): ALL - {"UPDATE"},
    ("gateway", "told_week"): APPEND,
}
_PROTOCOL_FUNCTIONS: Final = ("expect", "hold_lease", "maintain", "take_lease")
_FUNCTIONS: Final = {
    "monitoring": ("cost_by_team_and_day", "price_at"),
    "placement": ("change_ledger", "put_nodes", "put_quotas"),
}


def service_role(schema: str) -> str:
    """The role whose schema it is."""
    return f"muster_{schema}"


def table_rights(role: str, schema: str, table: str) -> frozenset[str]:
    """What `role` may do with a whole table, `table` as its name is in pg_class.

    Day partitions of inbox and outbox are reached through their tables only.
    """
    if role == READER:
        secret = any((schema, table) == one[:2] for one in SECRET_COLUMNS)
        return frozenset() if secret else READ
    if role != service_role(schema) or table.startswith(("inbox_", "outbox_")):
        return frozenset()
    return _OF_PROTOCOL.get(table) or _OF_SCHEMA.get((schema, table), ALL)


def may_execute(role: str, schema: str, function: str) -> bool:
    """Whether `role` may call the function."""
    return role == service_role(schema) and function in functions_of(schema)


def functions_of(schema: str) -> tuple[str, ...]:
    """The functions that the role of `schema` may call."""
    return (*_PROTOCOL_FUNCTIONS, *_FUNCTIONS.get(schema, ()))
