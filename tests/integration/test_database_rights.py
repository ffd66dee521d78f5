"""Who may do what in the database: every role, table, column and function, as the table says."""

import asyncpg
import pytest

from deploy.local.roles import role_name
from deploy.local.services import ROLES
from migrations.rights import (
    READER,
    SECRET_COLUMNS,
    SERVICE_SCHEMAS,
    may_execute,
    service_role,
    table_rights,
)
from shared.events.grants import READER as READING_SERVICE
from tests.fixtures.servers import Database

OF_OURS = f"n.nspname IN {SERVICE_SCHEMAS} AND r.rolname LIKE 'muster!_%' ESCAPE '!'"
RIGHTS = "ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']"
TABLES = (
    "SELECT r.rolname, n.nspname, c.relname, w.word FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace CROSS JOIN pg_roles r"
    f" CROSS JOIN unnest({RIGHTS}) w (word) WHERE c.relkind IN ('r', 'p', 'v', 'm')"
    f" AND has_table_privilege(r.oid, c.oid, w.word) AND {OF_OURS}"
)
COLUMNS = (
    "SELECT n.nspname, c.relname, a.attname FROM pg_attribute a"
    " JOIN pg_class c ON c.oid = attrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
    " CROSS JOIN pg_roles r WHERE attnum > 0"
    " AND NOT attisdropped AND c.relkind IN ('r', 'p', 'v', 'm')"
    f" AND {{no}} has_column_privilege(r.oid, c.oid, attnum, 'SELECT') AND {OF_OURS}"
    " AND r.rolname = '{role}'"
)
FUNCTIONS = (
    "SELECT r.rolname, n.nspname, p.proname FROM pg_proc p"
    " JOIN pg_namespace n ON n.oid = p.pronamespace CROSS JOIN pg_roles r"
    f" WHERE has_function_privilege(r.oid, p.oid, 'EXECUTE') AND {OF_OURS}"
)
SCHEMAS = (
    "SELECT r.rolname, n.nspname FROM pg_namespace n CROSS JOIN pg_roles r"
    f" WHERE has_schema_privilege(r.oid, n.oid, '{{right}}') AND {OF_OURS}"
)
ESCALATIONS = (
    "SELECT placement.put_quotas(ARRAY[]::text[])",
    "SELECT placement.put_nodes(ARRAY[]::text[])",
    "SELECT placement.maintain()",
    "SELECT gateway.maintain()",
    "SELECT rolpassword FROM pg_authid",
    "SELECT digest FROM gateway.api_key",
    "SELECT * FROM gateway.api_key",
    "DELETE FROM placement.workload",
    "CREATE TABLE placement.mine (a int)",
    "CREATE TABLE public.mine (a int)",
)


def rows_of(database: Database, sql: str) -> set[tuple[str, ...]]:
    """Rows that the owner reads."""
    return {tuple(line.split("|")) for line in database.execute(sql).splitlines()}


def all_tables(database: Database) -> set[tuple[str, str]]:
    """(schema, table), views among them."""
    sql = (
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        f" WHERE c.relkind IN ('r', 'p', 'v', 'm') AND n.nspname IN {SERVICE_SCHEMAS}"
    )
    found = rows_of(database, sql)
    return {(schema, table) for schema, table in found}


def test_schemas_are_those_of_the_table(database: Database) -> None:
    found = rows_of(
        database, "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_|^information_schema$'"
    )

    assert found == {(schema,) for schema in (*SERVICE_SCHEMAS, "public")}


def test_every_role_has_the_rights_of_the_table_and_no_other(database: Database) -> None:
    expected = {
        (role_name(role), schema, table, right)
        for role in ROLES
        for schema, table in all_tables(database)
        for right in table_rights(role_name(role), schema, table)
    }

    assert rows_of(database, TABLES) == expected


def test_the_reader_sees_every_column_but_secrets(database: Database) -> None:
    assert rows_of(database, COLUMNS.format(no="NOT", role=READER)) == SECRET_COLUMNS


@pytest.mark.parametrize("schema", SERVICE_SCHEMAS)
def test_a_service_sees_no_column_of_another_schema(database: Database, schema: str) -> None:
    seen = rows_of(database, COLUMNS.format(no="", role=service_role(schema)))

    assert {one for one, _, _ in seen} == {schema}


def test_functions_are_run_by_those_whom_the_table_names(database: Database) -> None:
    names = rows_of(
        database,
        "SELECT n.nspname, p.proname FROM pg_proc p"
        f" JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname IN {SERVICE_SCHEMAS}",
    )
    roles = map(role_name, ROLES)

    assert rows_of(database, FUNCTIONS) == {
        (role, *name) for role in roles for name in names if may_execute(role, *name)
    }


def test_no_role_makes_anything_in_a_schema_and_each_uses_its_own(database: Database) -> None:
    own = {(service_role(schema), schema) for schema in SERVICE_SCHEMAS}

    assert not rows_of(database, SCHEMAS.format(right="CREATE"))
    assert rows_of(database, SCHEMAS.format(right="USAGE")) == own | {
        (READER, schema) for schema in SERVICE_SCHEMAS
    }


def test_new_tables_are_read_and_new_functions_run_by_nobody(database: Database) -> None:
    database.execute(
        "CREATE TABLE quota.new (a int)",
        "CREATE FUNCTION quota.new_one() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    )

    assert (READER, "quota", "new", "SELECT") in rows_of(database, TABLES)
    assert not any(name == "new_one" for _, _, name in rows_of(database, FUNCTIONS))


@pytest.mark.parametrize("sql", ESCALATIONS)
async def test_the_reader_does_not_rise(database: Database, sql: str) -> None:
    connection = await asyncpg.connect(database.url(READING_SERVICE))
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch(sql)
    finally:
        await connection.close()
