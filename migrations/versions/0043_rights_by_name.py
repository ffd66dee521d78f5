"""Rights by name: PUBLIC runs no function, the reader sees no digest of a key and no pg_authid.

The reader had `pg_read_all_data`, which is USAGE of every schema, so that it could also call what
PUBLIC may: `placement.put_quotas` and `put_nodes` run with the owner's rights.
"""

from __future__ import annotations

from migrations.protocol import create_role, execute
from migrations.rights import (
    FIRST_SCHEMAS,
    READER,
    SECRET_COLUMNS,
    functions_of,
    service_role,
)

revision = "0043"
down_revision = "0042"

NEW_OBJECTS_SQL = """
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
REVOKE pg_read_all_data FROM {reader};
"""
SCHEMA_SQL = """
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC, {role};
GRANT EXECUTE ON FUNCTION {functions} TO {role};
GRANT USAGE ON SCHEMA {schema} TO {reader};
GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {reader};
ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT ON TABLES TO {reader};
"""
HIDE_SQL = """
REVOKE SELECT ON {table} FROM {reader};
DO $$ BEGIN
    EXECUTE (
        SELECT format('GRANT SELECT (%s) ON {table} TO {reader}',
            string_agg(quote_ident(attname), ', '))
        FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0
            AND NOT attisdropped AND attname <> '{column}'
    );
END $$;
"""


def upgrade() -> None:
    """Take all, give by name."""
    execute(create_role(READER) + NEW_OBJECTS_SQL.format(reader=READER))
    for schema in FIRST_SCHEMAS:
        functions = ", ".join(f"{schema}.{name}" for name in functions_of(schema))
        names = {"schema": schema, "role": service_role(schema), "reader": READER}
        execute(SCHEMA_SQL.format(functions=functions, **names))
    for schema, table, column in SECRET_COLUMNS:
        execute(HIDE_SQL.format(table=f"{schema}.{table}", column=column, reader=READER))


def downgrade() -> None:
    """As it was: PUBLIC runs functions, and the reader reads everything."""
    execute("ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO PUBLIC")
    for schema in FIRST_SCHEMAS:
        execute(f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO PUBLIC")
        execute(f"REVOKE EXECUTE ON FUNCTION {schema}.make_part FROM PUBLIC")
    execute(
        "REVOKE EXECUTE ON FUNCTION placement.move_usage, placement.recount_usage FROM PUBLIC;"
        f"GRANT pg_read_all_data TO {READER};"
    )
