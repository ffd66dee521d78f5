CREATE TABLE admission.document (
    kind text NOT NULL,
    name text NOT NULL,
    version bigint NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT document_pkey PRIMARY KEY (kind, name)
);
CREATE TABLE admission.node (
    name text NOT NULL,
    generation bigint NOT NULL,
    present boolean NOT NULL,
    grown_at_ms bigint NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT node_pkey PRIMARY KEY (name)
);
CREATE TABLE admission.parked (
    id text NOT NULL,
    due_ms bigint NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT parked_pkey PRIMARY KEY (id)
);
CREATE TABLE admission.team_count (
    team text NOT NULL,
    accepted bigint NOT NULL,
    ended bigint NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT team_count_pkey PRIMARY KEY (team)
);
CREATE TABLE admission.told_team (
    team text NOT NULL,
    since_ms bigint NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT told_team_pkey PRIMARY KEY (team)
);
CREATE TABLE admission.workload (
    id text NOT NULL,
    team text NOT NULL,
    body_hash text NOT NULL,
    state text NOT NULL,
    message text NOT NULL,
    errors text NOT NULL,
    at_ms bigint NOT NULL,
    epoch bigint NOT NULL,
    on_shares boolean DEFAULT false NOT NULL,
    CONSTRAINT workload_pkey PRIMARY KEY (id),
    CONSTRAINT workload_state_check CHECK ((state = ANY (ARRAY['accepted'::text, 'rejected'::text])))
);
CREATE TABLE binder.attempt (
    workload_id text NOT NULL,
    attempt integer NOT NULL,
    cell integer NOT NULL,
    epoch bigint NOT NULL,
    team text NOT NULL,
    state text NOT NULL,
    active boolean NOT NULL,
    evicting boolean DEFAULT false NOT NULL,
    grace_seconds integer DEFAULT 0 NOT NULL,
    succeeded boolean DEFAULT false NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    size integer NOT NULL,
    pods json NOT NULL,
    accepted_at_ms bigint NOT NULL,
    changed_at_ms bigint NOT NULL,
    resizing integer DEFAULT 0 NOT NULL,
    pods_before integer DEFAULT 0 NOT NULL,
    fenced_nodes text[] DEFAULT '{}'::text[] NOT NULL,
    CONSTRAINT attempt_pkey PRIMARY KEY (workload_id, attempt),
    CONSTRAINT attempt_check CHECK ((active = (state = ANY (ARRAY['binding'::text, 'bound'::text, 'running'::text])))),
    CONSTRAINT attempt_size_check CHECK ((size >= 0)),
    CONSTRAINT attempt_state_check CHECK ((state = ANY (ARRAY['binding'::text, 'bound'::text, 'running'::text, 'finished'::text, 'refused'::text, 'gone'::text])))
);
CREATE TABLE binder.fence (
    cell integer NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT fence_pkey PRIMARY KEY (cell)
);
CREATE TABLE placement.allocation (
    workload_id text NOT NULL,
    attempt integer NOT NULL,
    rank integer NOT NULL,
    node text NOT NULL,
    gpu integer NOT NULL,
    team text NOT NULL,
    queue text NOT NULL,
    flavor text NOT NULL,
    mask integer NOT NULL,
    milli integer NOT NULL,
    gpu_memory_mib bigint NOT NULL,
    cpu_milli bigint NOT NULL,
    memory_mib bigint NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT allocation_pkey PRIMARY KEY (workload_id, rank, gpu, mask, attempt),
    CONSTRAINT allocation_amounts CHECK ((((milli >= 0) AND (milli <= 1000)) AND ((mask >= 0) AND (mask <= 255)) AND (gpu_memory_mib >= 0) AND (cpu_milli >= 0) AND (memory_mib >= 0)))
);
CREATE TABLE placement.avoided (
    workload_id text NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT avoided_pkey PRIMARY KEY (workload_id)
);
CREATE TABLE placement.broken_promise (
    workload_id text NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT broken_promise_pkey PRIMARY KEY (workload_id)
);
CREATE TABLE placement.cordon (
    node text NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT cordon_pkey PRIMARY KEY (node)
);
CREATE TABLE placement.device_health (
    device text NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT device_health_pkey PRIMARY KEY (device)
);
CREATE TABLE placement.gpu (
    node text NOT NULL,
    gpu integer NOT NULL,
    memory_mib bigint NOT NULL,
    healthy boolean DEFAULT true NOT NULL,
    mask integer DEFAULT 0 NOT NULL,
    slices_used integer DEFAULT 0 NOT NULL,
    milli_used integer DEFAULT 0 NOT NULL,
    memory_mib_used bigint DEFAULT 0 NOT NULL,
    shares integer DEFAULT 0 NOT NULL,
    share_team text DEFAULT ''::text NOT NULL,
    CONSTRAINT gpu_pkey PRIMARY KEY (node, gpu),
    CONSTRAINT gpu_memory CHECK (((memory_mib_used >= 0) AND ((shares = 0) OR (memory_mib_used <= memory_mib)))),
    CONSTRAINT gpu_milli CHECK (((milli_used >= 0) AND (milli_used <= 1000))),
    CONSTRAINT gpu_mode CHECK (((shares >= 0) AND ((shares = 0) OR (slices_used = 0)))),
    CONSTRAINT gpu_slices CHECK (((bit_count((mask)::bit(8)) = slices_used) AND ((mask >= 0) AND (mask <= 255)))),
    CONSTRAINT gpu_team CHECK ((((shares = 0) = (share_team = ''::text)) AND (share_team !~~ '%,%'::text)))
);
CREATE TABLE placement.node (
    name text NOT NULL,
    generation bigint NOT NULL,
    present boolean NOT NULL,
    ready boolean NOT NULL,
    cpu_milli bigint NOT NULL,
    memory_mib bigint NOT NULL,
    cpu_milli_used bigint DEFAULT 0 NOT NULL,
    memory_mib_used bigint DEFAULT 0 NOT NULL,
    body text NOT NULL,
    CONSTRAINT node_pkey PRIMARY KEY (name),
    CONSTRAINT node_cpu CHECK (((cpu_milli_used >= 0) AND ((cpu_milli_used <= cpu_milli) OR (NOT present)))),
    CONSTRAINT node_memory CHECK (((memory_mib_used >= 0) AND ((memory_mib_used <= memory_mib) OR (NOT present))))
);
CREATE TABLE placement.node_debt (
    node text NOT NULL,
    debt bigint NOT NULL,
    at_ms bigint NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT node_debt_pkey PRIMARY KEY (node)
);
CREATE TABLE placement.node_devices (
    node text NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT node_devices_pkey PRIMARY KEY (node)
);
CREATE TABLE placement.promise (
    workload_id text NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT promise_pkey PRIMARY KEY (workload_id)
);
CREATE TABLE placement.queue_usage (
    queue text NOT NULL,
    gpu_seconds bigint NOT NULL,
    at_ms bigint NOT NULL,
    half_life_ms bigint NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT queue_usage_pkey PRIMARY KEY (queue),
    CONSTRAINT queue_usage_gpu_seconds_check CHECK ((gpu_seconds >= 0)),
    CONSTRAINT queue_usage_half_life_ms_check CHECK ((half_life_ms > 0))
);
CREATE TABLE placement.quota_node (
    name text NOT NULL,
    kind text NOT NULL,
    parent text NOT NULL,
    version bigint NOT NULL,
    body text NOT NULL,
    CONSTRAINT quota_node_pkey PRIMARY KEY (name)
);
CREATE TABLE placement.reservation (
    workload_id text NOT NULL,
    plan_id text NOT NULL,
    queue text NOT NULL,
    flavor text NOT NULL,
    expires_at_ms bigint NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT reservation_pkey PRIMARY KEY (workload_id)
);
CREATE TABLE placement.suspicion (
    node text NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT suspicion_pkey PRIMARY KEY (node)
);
CREATE TABLE placement.team_budget (
    team text NOT NULL,
    at_ms bigint NOT NULL,
    at_limit text NOT NULL,
    spot_flavors text[] NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT team_budget_pkey PRIMARY KEY (team)
);
CREATE TABLE placement.usage (
    quota_node text NOT NULL,
    flavor text NOT NULL,
    gpu_milli bigint DEFAULT 0 NOT NULL,
    cpu_milli bigint DEFAULT 0 NOT NULL,
    memory_mib bigint DEFAULT 0 NOT NULL,
    gpu_milli_limit bigint NOT NULL,
    cpu_milli_limit bigint NOT NULL,
    memory_mib_limit bigint NOT NULL,
    gpu_milli_ceiling bigint NOT NULL,
    cpu_milli_ceiling bigint NOT NULL,
    memory_mib_ceiling bigint NOT NULL,
    gpu_milli_guaranteed bigint DEFAULT 0 NOT NULL,
    cpu_milli_guaranteed bigint DEFAULT 0 NOT NULL,
    memory_mib_guaranteed bigint DEFAULT 0 NOT NULL,
    CONSTRAINT usage_pkey PRIMARY KEY (quota_node, flavor),
    CONSTRAINT usage_cpu CHECK (((cpu_milli >= 0) AND (cpu_milli <= cpu_milli_ceiling))),
    CONSTRAINT usage_gpu CHECK (((gpu_milli >= 0) AND (gpu_milli <= gpu_milli_ceiling))),
    CONSTRAINT usage_memory CHECK (((memory_mib >= 0) AND (memory_mib <= memory_mib_ceiling)))
);
CREATE TABLE placement.workload (
    id text NOT NULL,
    team text NOT NULL,
    queue text NOT NULL,
    cell integer NOT NULL,
    state text NOT NULL,
    over boolean GENERATED ALWAYS AS ((state = ANY (ARRAY['succeeded'::text, 'failed'::text, 'cancelled'::text]))) STORED NOT NULL,
    version bigint NOT NULL,
    attempt integer NOT NULL,
    priority bigint NOT NULL,
    failures integer NOT NULL,
    submitted_at_ms bigint NOT NULL,
    changed_at_ms bigint NOT NULL,
    deadline_kind text NOT NULL,
    deadline_ms bigint NOT NULL,
    then_held boolean NOT NULL,
    reason text NOT NULL,
    message text NOT NULL,
    nomination integer NOT NULL,
    nominated text NOT NULL,
    body text NOT NULL,
    placement text NOT NULL,
    epoch bigint NOT NULL,
    resize text DEFAULT ''::text NOT NULL,
    priority_class text DEFAULT ''::text NOT NULL,
    pod_reason text DEFAULT ''::text NOT NULL,
    setbacks integer DEFAULT 0 NOT NULL,
    running_at_ms bigint DEFAULT 0 NOT NULL,
    CONSTRAINT workload_pkey PRIMARY KEY (id)
);
CREATE TABLE quota.dated_price (
    flavor text NOT NULL,
    version bigint NOT NULL,
    applied_at_ms bigint NOT NULL,
    microdollars_per_gpu_hour bigint NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT dated_price_pkey PRIMARY KEY (flavor, version, applied_at_ms),
    CONSTRAINT dated_price_microdollars_per_gpu_hour_check CHECK ((microdollars_per_gpu_hour >= 0))
);
CREATE TABLE quota.early (
    workload_id text NOT NULL,
    version bigint NOT NULL,
    held boolean NOT NULL,
    gone boolean NOT NULL,
    epoch bigint NOT NULL,
    priority bigint,
    CONSTRAINT early_pkey PRIMARY KEY (workload_id)
);
CREATE TABLE quota.flavor (
    name text NOT NULL,
    version bigint NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT flavor_pkey PRIMARY KEY (name)
);
CREATE TABLE quota.flavor_price (
    flavor text NOT NULL,
    version bigint NOT NULL,
    applied_at_ms bigint NOT NULL,
    microdollars_per_gpu_hour bigint NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT flavor_price_pkey PRIMARY KEY (flavor, version),
    CONSTRAINT flavor_price_microdollars_per_gpu_hour_check CHECK ((microdollars_per_gpu_hour >= 0))
);
CREATE TABLE quota.node_debt (
    node text NOT NULL,
    half_life_ms bigint NOT NULL,
    origin bigint NOT NULL,
    weighted numeric NOT NULL,
    rate bigint NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT node_debt_pkey PRIMARY KEY (node),
    CONSTRAINT node_debt_half_life_ms_check CHECK ((half_life_ms > 0))
);
CREATE TABLE quota.pending (
    workload_id text NOT NULL,
    team text NOT NULL,
    queue text NOT NULL,
    phase text NOT NULL,
    held boolean NOT NULL,
    hold_asked boolean NOT NULL,
    cancelled boolean NOT NULL,
    priority bigint NOT NULL,
    submitted_at_ms bigint NOT NULL,
    version bigint NOT NULL,
    nomination integer NOT NULL,
    flavor text NOT NULL,
    gpu_milli bigint NOT NULL,
    cpu_milli bigint NOT NULL,
    memory_mib bigint NOT NULL,
    attempt integer NOT NULL,
    placed_at_ms bigint NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT pending_pkey PRIMARY KEY (workload_id),
    CONSTRAINT pending_check CHECK (((gpu_milli >= 0) AND (cpu_milli >= 0) AND (memory_mib >= 0))),
    CONSTRAINT pending_phase_check CHECK ((phase = ANY (ARRAY['waiting'::text, 'offered'::text, 'refused'::text, 'idle'::text, 'placed'::text])))
);
CREATE TABLE quota.queue_usage (
    queue text NOT NULL,
    half_life_ms bigint NOT NULL,
    origin bigint NOT NULL,
    weighted numeric NOT NULL,
    changed_at_ms bigint NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT queue_usage_pkey PRIMARY KEY (queue),
    CONSTRAINT queue_usage_half_life_ms_check CHECK ((half_life_ms > 0))
);
CREATE TABLE quota.quota_node (
    name text NOT NULL,
    kind text NOT NULL,
    version bigint NOT NULL,
    revision bigint NOT NULL,
    body text NOT NULL,
    epoch bigint NOT NULL,
    closed_version bigint,
    CONSTRAINT quota_node_pkey PRIMARY KEY (name),
    CONSTRAINT quota_node_kind_check CHECK ((kind = ANY (ARRAY['queue'::text, 'cohort'::text])))
);
CREATE TABLE quota.team (
    name text NOT NULL,
    version bigint NOT NULL,
    budget text NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT team_pkey PRIMARY KEY (name)
);
CREATE TABLE quota.team_ended (
    team text NOT NULL,
    ended bigint NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT team_ended_pkey PRIMARY KEY (team)
);
CREATE TABLE quota.team_spending (
    team text NOT NULL,
    month integer NOT NULL,
    gpu_base numeric NOT NULL,
    money_base numeric NOT NULL,
    warned integer NOT NULL,
    epoch bigint NOT NULL,
    CONSTRAINT team_spending_pkey PRIMARY KEY (team),
    CONSTRAINT team_spending_warned_check CHECK ((warned = ANY (ARRAY[0, 80, 100])))
);
CREATE TABLE quota.usage_history (
    workload_id text NOT NULL,
    attempt integer NOT NULL,
    team text NOT NULL,
    queue text NOT NULL,
    flavor text NOT NULL,
    gpu_milli bigint NOT NULL,
    cpu_milli bigint NOT NULL,
    memory_mib bigint NOT NULL,
    started_at_ms bigint NOT NULL,
    ended_at_ms bigint NOT NULL,
    epoch bigint NOT NULL,
    resizes integer DEFAULT 0 NOT NULL,
    CONSTRAINT usage_history_pkey PRIMARY KEY (workload_id, attempt, resizes)
);
