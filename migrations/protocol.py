"""The tables of the protocol, the same in the schema of every service (ADR 2).

Inbox and outbox are in day partitions, made ahead and dropped whole by `<schema>.maintain()`:
the inbox by the time prefix of the event id (so that the id stays unique over all of them), the
outbox by the day it was written. The role of a service can neither change nor delete audit rows.
"""

from __future__ import annotations

PROTOCOL_SQL = """
CREATE SCHEMA IF NOT EXISTS {schema};

CREATE TABLE {schema}.lease (
    shard text PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 0,
    holder text NOT NULL DEFAULT '',
    expires_at timestamptz NOT NULL DEFAULT '-infinity'
);
CREATE TABLE {schema}.lease_history (
    shard text NOT NULL,
    epoch bigint NOT NULL,
    holder text NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT now(),
    next_seq bigint NOT NULL,
    next_unit bigint NOT NULL,
    PRIMARY KEY (shard, epoch)
);
CREATE TABLE {schema}.consumer_offset (
    shard text NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    next_offset bigint NOT NULL,
    PRIMARY KEY (shard, topic, partition)
);
CREATE TABLE {schema}.watermark (
    shard text PRIMARY KEY,
    acked_seq bigint NOT NULL DEFAULT 0,
    next_seq bigint NOT NULL DEFAULT 1,
    next_unit bigint NOT NULL DEFAULT 1
);
CREATE TABLE {schema}.inbox (
    event_id uuid NOT NULL,
    shard text NOT NULL,
    unit bigint NOT NULL,
    ordinal integer NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    log_offset bigint NOT NULL,
    at_ms bigint NOT NULL,
    epoch bigint NOT NULL,
    PRIMARY KEY (event_id, shard)
) PARTITION BY RANGE (event_id);
CREATE TABLE {schema}.inbox_other PARTITION OF {schema}.inbox DEFAULT;
CREATE TABLE {schema}.outbox (
    shard text NOT NULL,
    seq bigint NOT NULL,
    written_on date NOT NULL DEFAULT CURRENT_DATE,
    event_id uuid NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    key text NOT NULL,
    headers bytea NOT NULL,
    value bytea NOT NULL,
    epoch bigint NOT NULL,
    PRIMARY KEY (seq, shard, written_on)
) PARTITION BY RANGE (written_on);
CREATE TABLE {schema}.outbox_other PARTITION OF {schema}.outbox DEFAULT;
CREATE TABLE {schema}.audit (
    shard text NOT NULL,
    seq bigint NOT NULL,
    event_id uuid NOT NULL,
    subject text NOT NULL,
    version bigint NOT NULL,
    kind text NOT NULL,
    before text NOT NULL,
    after text NOT NULL,
    actor text NOT NULL,
    at_ms bigint NOT NULL,
    epoch bigint NOT NULL,
    digest bytea NOT NULL,
    PRIMARY KEY (seq, shard)
);

CREATE FUNCTION {schema}.take_lease(wanted_shard text, slot text, seconds double precision)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE taken bigint;
BEGIN
    INSERT INTO {schema}.lease (shard) VALUES (wanted_shard) ON CONFLICT DO NOTHING;
    INSERT INTO {schema}.watermark (shard) VALUES (wanted_shard) ON CONFLICT DO NOTHING;
    UPDATE {schema}.lease
    SET epoch = epoch + 1, holder = slot, expires_at = now() + make_interval(secs => seconds)
    WHERE shard = wanted_shard AND (holder = slot OR expires_at < now())
    RETURNING epoch INTO taken;
    -- What the epoch before may have written ends here; muster-ops check (I9) compares.
    INSERT INTO {schema}.lease_history (shard, epoch, holder, next_seq, next_unit)
    SELECT shard, taken, slot, next_seq, next_unit
    FROM {schema}.watermark WHERE shard = wanted_shard AND taken IS NOT NULL;
    RETURN taken;
END $$;

CREATE FUNCTION {schema}.hold_lease(wanted_shard text, wanted_epoch bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE current bigint;
BEGIN
    SELECT epoch INTO current FROM {schema}.lease WHERE shard = wanted_shard FOR SHARE;
    IF current IS DISTINCT FROM wanted_epoch THEN
        RAISE EXCEPTION 'lease % is at epoch %, not %', wanted_shard, current, wanted_epoch
            USING ERRCODE = 'MU001';
    END IF;
    RETURN current;
END $$;

CREATE FUNCTION {schema}.expect(what text, wanted bigint, got bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    IF wanted IS DISTINCT FROM got THEN
        RAISE EXCEPTION '%: % rows expected, % changed', what, wanted, got
            USING ERRCODE = 'MU002';
    END IF;
    RETURN got;
END $$;

"""

MAINTAIN_SQL = """
CREATE OR REPLACE FUNCTION {schema}.maintain() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = {schema}, pg_temp AS $$
DECLARE
    kept_inbox_days constant integer := 5;
    kept_outbox_days constant integer := 4;
    day date;
    part record;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('{schema}.maintain'));
    -- Units lock inbox, then outbox; so does this, and whole tables before their parts.
    FOR part IN
        SELECT c.relname AS name, to_date(right(c.relname, 8), 'YYYYMMDD') AS part_day
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent IN ('{schema}.inbox'::regclass, '{schema}.outbox'::regclass)
          AND c.relname ~ '_[0-9]{{8}}$'
        ORDER BY c.relname
    LOOP
        IF part.name LIKE 'inbox%' AND part.part_day < CURRENT_DATE - kept_inbox_days THEN
            EXECUTE format('DROP TABLE {schema}.%I', part.name);
        ELSIF part.name LIKE 'outbox%' AND part.part_day < CURRENT_DATE - kept_outbox_days THEN
            EXECUTE format(
                'DO $do$ BEGIN IF NOT EXISTS (SELECT 1 FROM {schema}.%I o '
                'JOIN {schema}.watermark w ON w.shard = o.shard AND o.seq > w.acked_seq) '
                'THEN DROP TABLE {schema}.%I; END IF; END $do$', part.name, part.name);
        END IF;
    END LOOP;
    -- What came before there was a part for it, or with an id of a day that gets none.
    DELETE FROM {schema}.inbox_other
    WHERE at_ms < 1000 * extract(epoch FROM now() - make_interval(days => kept_inbox_days));
    DELETE FROM {schema}.outbox_other o USING {schema}.watermark w
    WHERE o.written_on < CURRENT_DATE - kept_outbox_days
      AND w.shard = o.shard AND o.seq <= w.acked_seq;
    FOR day IN SELECT generate_series(CURRENT_DATE, CURRENT_DATE + 2, '1 day')::date LOOP
        PERFORM {schema}.make_part('inbox', day, 'event_id',
            {schema}.first_id(day), {schema}.first_id(day + 1));
        PERFORM {schema}.make_part('outbox', day, 'written_on', day::text, (day + 1)::text);
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION {schema}.first_id(day date) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT lpad(to_hex((extract(epoch FROM day) * 1000)::bigint), 12, '0') || repeat('0', 20)
$$;

CREATE OR REPLACE FUNCTION {schema}.make_part(
    whole text, day date, place text, low text, high text
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE name text := whole || '_' || to_char(day, 'YYYYMMDD');
BEGIN
    IF to_regclass(format('{schema}.%I', name)) IS NOT NULL THEN
        RETURN;
    END IF;
    -- A part is refused while rows that belong into it lie in the part for all others.
    EXECUTE format('LOCK TABLE {schema}.%I IN ACCESS EXCLUSIVE MODE', whole || '_other');
    EXECUTE format('CREATE TABLE {schema}.%I (LIKE {schema}.%I INCLUDING ALL)', name, whole);
    EXECUTE format('WITH moved AS (DELETE FROM {schema}.%I WHERE %I >= %L AND %I < %L RETURNING *)'
        ' INSERT INTO {schema}.%I SELECT * FROM moved',
        whole || '_other', place, low, place, high, name);
    EXECUTE format('ALTER TABLE {schema}.%I ATTACH PARTITION {schema}.%I'
        ' FOR VALUES FROM (%L) TO (%L)', whole, name, low, high);
END $$;
REVOKE EXECUTE ON FUNCTION {schema}.make_part FROM PUBLIC;
"""

GRANT_SQL = """
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role};
REVOKE UPDATE, DELETE ON {schema}.audit, {schema}.lease_history FROM {role};
REVOKE DELETE ON {schema}.inbox, {schema}.outbox FROM {role};
DO $$ DECLARE part regclass; BEGIN  -- the parts are reached through their tables only
    FOR part IN SELECT inhrelid::regclass FROM pg_inherits
                WHERE inhparent IN ('{schema}.inbox'::regclass, '{schema}.outbox'::regclass) LOOP
        EXECUTE format('REVOKE ALL ON %s FROM {role}', part);
    END LOOP;
END $$;
"""


def protocol_sql(schema: str) -> str:
    """Statements that make the protocol tables in `schema`."""
    return PROTOCOL_SQL.format(schema=schema) + maintain_sql(schema)


def maintain_sql(schema: str) -> str:
    """Statements that make `<schema>.maintain()`, or replace it, and call it."""
    return MAINTAIN_SQL.format(schema=schema) + f"SELECT {schema}.maintain();\n"


def grant_sql(schema: str, role: str) -> str:
    """Rights of a service's role on its own schema, after all its tables are made."""
    return GRANT_SQL.format(schema=schema, role=role)


def execute(sql: str) -> None:
    """Run a script of many statements through the driver itself, inside alembic's transaction."""
    from alembic import op  # noqa: PLC0415  # only usable while alembic runs

    bind = op.get_bind()
    bind.exec_driver_sql("SELECT 1")  # SQLAlchemy begins the transaction with the first statement
    bind.connection.dbapi_connection.run_async(lambda driver: driver.execute(sql))


def create_role(role: str) -> str:
    """SQL that makes the login role of a service if the cluster has none yet."""
    return (
        f"DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{role}') "
        f"THEN CREATE ROLE {role} LOGIN; END IF; END $$;"
    )


def create_schema(schema: str, tables_sql: str) -> None:
    """The whole schema of one service: protocol tables, its own tables, rights of its role."""
    role = f"muster_{schema}"
    execute(create_role(role) + protocol_sql(schema) + tables_sql + grant_sql(schema, role))
