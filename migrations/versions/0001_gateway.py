"""Schema of the service gateway: documents, keys, accepted requests and the read model.

The read model is written for its readers: `workload` is lean because each fact rewrites its row;
what never changes (`workload_spec`) and what only grows (`event`) lie apart. `live` stays true
until the workload ends, so the index on it is not touched by the states between. Usage of queues
and nodes is summed from the rows of live workloads when somebody asks.
"""

from __future__ import annotations

from migrations.protocol import create_schema, execute

revision = "0001"
down_revision = None

TABLES_SQL = """
CREATE TABLE gateway.document (
    kind text NOT NULL,
    name text NOT NULL,
    version bigint NOT NULL,
    body text NOT NULL,
    actor text NOT NULL,
    at_ms bigint NOT NULL,
    epoch bigint NOT NULL,
    PRIMARY KEY (kind, name)
);

CREATE TABLE gateway.api_key (
    prefix text PRIMARY KEY,
    digest bytea NOT NULL,
    team text NOT NULL,
    role text NOT NULL,
    label text NOT NULL,
    created_by text NOT NULL,
    created_at_ms bigint NOT NULL,
    expires_at_ms bigint,
    revoked_at_ms bigint
);
CREATE INDEX api_key_team ON gateway.api_key (team);

CREATE TABLE gateway.accepted_request (
    workload_id text PRIMARY KEY,
    team text NOT NULL,
    body_hash text NOT NULL,
    actor text NOT NULL,
    spec text NOT NULL,
    at_ms bigint NOT NULL,
    epoch bigint NOT NULL
);
CREATE INDEX accepted_request_by_time ON gateway.accepted_request (at_ms);

CREATE TABLE gateway.workload (
    id text PRIMARY KEY,
    team text NOT NULL,
    submitted_at_ms bigint NOT NULL,
    live boolean NOT NULL DEFAULT true,
    version bigint NOT NULL,
    state text NOT NULL,
    changed_at_ms bigint NOT NULL,
    name text,
    kind text,
    queue text,
    body_hash text,
    labels jsonb,
    pods integer,
    gpu_milli bigint,
    cell integer,
    priority bigint,
    attempt integer,
    reason text,
    message text,
    flavor text,
    charge_gpu_milli bigint,
    charge_cpu_milli bigint,
    charge_memory_mib bigint,
    nodes text[],
    nodes_gpu_milli bigint[],
    placement text,
    queued_at_ms bigint,
    placed_at_ms bigint,
    running_at_ms bigint,
    ended_at_ms bigint
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX workload_by_team ON gateway.workload (team, submitted_at_ms, id);
CREATE INDEX workload_by_time ON gateway.workload (submitted_at_ms, id);
CREATE INDEX workload_live ON gateway.workload (team, submitted_at_ms, id) WHERE live;

CREATE TABLE gateway.workload_spec (
    id text PRIMARY KEY,
    spec text NOT NULL
);

CREATE TABLE gateway.event (
    seq bigint PRIMARY KEY,
    workload_id text NOT NULL,
    team text NOT NULL,
    type text NOT NULL,
    version bigint NOT NULL,
    at_ms bigint NOT NULL,
    state text NOT NULL,
    reason text NOT NULL,
    message text NOT NULL,
    detail text NOT NULL
);
CREATE INDEX event_by_workload ON gateway.event (workload_id, seq);

CREATE TABLE gateway.node (
    name text PRIMARY KEY,
    cell integer NOT NULL,
    generation bigint NOT NULL,
    flavor text NOT NULL,
    pool text NOT NULL,
    gpus integer NOT NULL,
    body text NOT NULL,
    removed boolean NOT NULL,
    changed_at_ms bigint NOT NULL
);
CREATE TABLE gateway.gpu_health (
    node text NOT NULL,
    gpu integer NOT NULL,
    generation bigint NOT NULL,
    healthy boolean NOT NULL,
    reason text NOT NULL,
    changed_at_ms bigint NOT NULL,
    PRIMARY KEY (node, gpu)
);
CREATE TABLE gateway.quota_limit (
    name text PRIMARY KEY,
    kind text NOT NULL,
    version bigint NOT NULL,
    body text NOT NULL,
    changed_at_ms bigint NOT NULL
);
"""


def upgrade() -> None:
    """Make the schema, its tables and the rights of its role."""
    create_schema("gateway", TABLES_SQL)


def downgrade() -> None:
    """Drop the schema with everything in it."""
    execute("DROP SCHEMA gateway CASCADE")
