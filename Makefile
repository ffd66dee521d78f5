# Every command of the project. `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# The distribution's own first: it is built with profiles, one that pyenv built is a third slower.
PYTHONS := python3.13 python3.12 python3.11 python3
PYTHON ?= $(shell for p in $(PYTHONS:%=/usr/bin/%) $(PYTHONS); do \
	$$p -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LOCAL := $(BIN)/python -m deploy.local
KUBE := $(BIN)/python -m deploy.kube
KUBE_NODES ?= 64
KUBELETS := $(BIN)/python -m deploy.kubelets
# With CLUSTER=kube the local system's pods and nodes are those of the cluster in .kube/.
ON_KUBE = $(if $(filter-out kube simulated,$(CLUSTER)),$(error CLUSTER is $(CLUSTER): kube or simulated is needed))$(strip \
	)$(if $(filter kube,$(CLUSTER)),KUBE_NODES=$(KUBE_NODES) $(KUBE) up && \
	MUSTER_CLUSTER=kubernetes MUSTER_KUBE_FOLDER=$(CURDIR)/.kube)
TEST_WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadscope
# Tests without a server that take every branch of the core. Without a random example, so that no
# branch hangs on a seed, and because counting branches makes all of them take thrice as long.
MEASURED := HYPOTHESIS_PROFILE=written $(PYTEST) tests/unit tests/properties --ignore=tests/unit/benchmarks
COVERAGE := --cov=shared/core --cov-branch --cov-fail-under=100 --cov-report=term-missing:skip-covered
CONTAINERS := $(BIN)/python -m deploy.containers
# Of the store and of the log: what each server must do for us.
CONTRACTS := tests/contract/test_store.py tests/contract/test_lease.py tests/contract/test_log.py
N ?= 10
SEED ?= 1
FAULTS ?= 200
# Modules that write a committed file from the code; each takes --write and --check.
GENERATORS := "deploy.local compose" "operations.documents" "services.gateway.api.openapi" \
	"tests.benchmarks.readme" "deploy.observe.dashboards" "deploy.chart"
COMPILE := $(BIN)/pip-compile --quiet --no-strip-extras --generate-hashes --allow-unsafe --no-header \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host

.PHONY: help
help: ## List the commands
	@grep -hE '^[a-z%-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

# ── set up ────────────────────────────────────────────────────────────────────
.PHONY: setup
setup: $(READY) ## Create the virtual environment with everything pinned

$(READY): requirements-dev.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with venv is needed: apt-get install python3 python3-venv"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
		echo "No virtual environment could be made: apt-get install python3-venv"; exit 1; }
	$(BIN)/pip install --quiet --require-hashes -r requirements-dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: lock
lock: setup ## Pin the newest allowed dependencies, with hashes
	$(COMPILE) --upgrade --output-file requirements.txt requirements.in
	$(COMPILE) --upgrade --output-file requirements-build.txt requirements-build.in
	$(COMPILE) --upgrade --output-file requirements-dev.txt requirements-dev.in
	$(COMPILE) --upgrade --output-file requirements-agent.txt requirements-agent.in

# ── the system on this machine ────────────────────────────────────────────────
.PHONY: up down purge status logs demo alert-test observe backup restore
up: setup ## Start broker, database and all services in .muster/; CLUSTER=kube: on a real API server; BACKUP=1: keep every commit
	@$(ON_KUBE) $(if $(BACKUP),MUSTER_KEEP_COMMITS=1) $(LOCAL) up
backup: setup ## Take a base backup of the database of a system that is up
	@$(LOCAL) backup
restore: setup ## Put the database of a stopped system back: the base backup and every commit since
	@$(LOCAL) restore
down: ## Stop all of it
	@if test -x $(BIN)/python; then $(LOCAL) down; fi
purge: ## Stop all of it and forget its data
	@if test -x $(BIN)/python; then $(LOCAL) down --purge; fi
status: setup ## Show what runs, and where
	@$(LOCAL) status
logs: setup ## Follow a process: make logs s=placement
	@$(LOCAL) logs $(s)
demo: setup ## Start it and tell a story of three minutes; QUICK=1: 2,000 workloads and a report
	@$(LOCAL) demo $(if $(QUICK),--quick)
alert-test: setup ## See every alert fire and end, by a real Prometheus and Alertmanager, in a run with faults: four minutes
	MUSTER_OBSERVE=required $(BIN)/python -m pytest -s tests/observe/test_every_alert.py
observe: setup ## Start Prometheus with Muster's rules beside it, and Alertmanager where it is installed; Ctrl-C ends both
	@$(BIN)/python -m deploy.observe $(if $(AGENT),--agent $(AGENT))

# ── a Kubernetes control plane on this machine ────────────────────────────────
.PHONY: kube-up kube-down test-kube chart
kube-up: setup ## Start a real API server with simulated nodes in .kube/: make kube-up KUBE_NODES=1000
	@KUBE_NODES=$(KUBE_NODES) $(KUBE) up
kube-down: ## Stop it and forget what it held
	@if test -x $(BIN)/python; then $(KUBE) down; fi
test-kube: setup ## Run the tests that need a real API server (the first time Go builds it)
	@$(KUBE) build
	$(BIN)/python -m pytest $(or $(TEST_ARGUMENTS),tests/kube)
chart: setup ## Lint the Helm chart, render it, install, upgrade and remove it on a real API server
	@$(KUBE) build
	$(BIN)/python -m pytest tests/kube/test_chart.py

# ── real kubelets on this machine ─────────────────────────────────────────────
.PHONY: kubelet-up kubelet-down test-kubelet test-chart test-chart-upgrade
kubelet-up: setup ## Start four real kubelets and their control plane in .kubelets/ (root, Debian)
	@$(KUBELETS) up
kubelet-down: ## End them and forget what they held
	@if test -x $(BIN)/python; then $(KUBELETS) down; fi
test-kubelet: setup ## Run the tests that need real kubelets (the first time Go builds one)
	@$(KUBELETS) build
	$(BIN)/python -m pytest $(or $(TEST_ARGUMENTS),tests/kubelet)
test-chart: setup ## Build the image, install and upgrade the chart on real kubelets while Jobs run (root, a container engine)
	@$(KUBELETS) build
	$(CONTAINERS) $(BIN)/python -m pytest -x $(or $(TEST_ARGUMENTS),tests/chart)
test-chart-upgrade: setup ## The same from the image and chart of a revision, and back and forth again: make test-chart-upgrade FROM=REV
	@$(KUBELETS) build
	MUSTER_CHART_FROM=$(or $(FROM),$(error FROM is a revision of git)) $(CONTAINERS) $(BIN)/python -m pytest -x -s tests/chart/test_upgraded.py

# ── measuring and breaking ────────────────────────────────────────────────────
.PHONY: fault-test kill-test replay-kill-test kube-kill-test upgrade-test simulate power bench
bench: setup ## Run every benchmark of the core in its short form, against its ranges
	$(BIN)/python -m tests.benchmarks suite $(BENCH_ARGUMENTS)
bench-%: setup ## Measure: make bench-pipeline, bench-gateway-load, ...
	$(BIN)/python -m tests.benchmarks.$(subst -,_,$*) $(BENCH_ARGUMENTS)
kill-test: setup ## Kill processes at random under load: make kill-test N=60 SEED=1
	$(BIN)/python -m tests.e2e.kill_test --rounds $(N) --seed $(SEED)
fault-test: setup ## Every kind of fault, of processes, disk, clocks and stores: make fault-test N=30 SEED=1
	$(BIN)/python -m tests.e2e.fault_test --rounds $(N) --seed $(SEED)
replay-kill-test: setup ## The same under Philly and Kalos, with preemption, drains and changes of quota
	$(BIN)/python -m tests.e2e.replay_kill_test --rounds $(N) --seed $(SEED) --device-faults $(FAULTS)
upgrade-test: setup ## Roll every service from a revision to this one and back under load: make upgrade-test FROM=REV
	$(BIN)/python -m tests.e2e.upgrade_test --from $(or $(FROM),$(error FROM is a revision of git))
kube-kill-test: setup ## The same of binder and API server, with lost answers and refusals: make kube-kill-test N=100 SEED=1
	$(BIN)/python -m tests.kube.kill_test --rounds $(N) --seed $(SEED)
simulate: setup ## The runtime on fakes in virtual time, with faults by seed: make simulate N=1000 SEED=1
	$(BIN)/python -m tests.simulation --seeds $(N) --seed $(SEED)
power: setup ## Apply each seeded bug to a copy; the simulation must find it
	$(BIN)/python -m tests.power

# ── quality ───────────────────────────────────────────────────────────────────
.PHONY: dashboards dashboard-pictures grafana-schema test compose-test container-test coverage check fmt lint types layers tidy generated generated-check wheel-check
test: setup $(if $(strip $(TEST_ARGUMENTS)),,coverage) ## Run every test, on a real broker and database
	$(PYTEST) $(or $(TEST_ARGUMENTS),-m "not measured and not alone and not compose" --ignore=tests/kube --ignore=tests/kubelet --ignore=tests/chart)
	$(if $(strip $(TEST_ARGUMENTS)),,$(BIN)/python -m pytest -m alone tests/e2e)
compose-test: setup ## Run docker-compose.yml as it is on a container engine, and break it
	$(CONTAINERS) $(BIN)/python -m pytest -m compose -x -s --timeout 900 tests/compose
container-test: setup ## Run the contract tests of both adapters on servers in containers
	$(CONTAINERS) env MUSTER_TEST_SERVERS=containers $(BIN)/python -m pytest $(CONTRACTS)
coverage: setup ## Run the tests without a server or a random example; they must take every branch of shared/core
	$(MEASURED) $(COVERAGE)
check: setup lint types layers tidy generated-check wheel-check ## All that CI checks before the tests
fmt: setup ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
types: setup
	$(BIN)/mypy
layers: setup
	$(BIN)/lint-imports
tidy: setup
	$(BIN)/python -m pytest -q tests/architecture
generated: setup ## Write the generated files again
	@set -e; for generator in $(GENERATORS); do $(BIN)/python -m $$generator --write; done
dashboards: setup ## Write the dashboards for Grafana again, deploy/grafana/dashboards/*.json
	$(BIN)/python -m deploy.observe.dashboards --write
dashboard-pictures: setup ## Draw dashboards with Grafana's own components, PROMETHEUS=its URL; needs npm and chromium
	$(BIN)/python -m deploy.observe.pictures --prometheus $(PROMETHEUS)
grafana-schema: ## Make the form of dashboards again from Grafana's own types, with npm
	@mkdir -p .cache/grafana-schema
	@cd deploy/grafana/schema && cp form.ts package.json tsconfig.json $(CURDIR)/.cache/grafana-schema
	@cd .cache/grafana-schema && npm install --silent --ignore-scripts --no-audit --no-fund && npm run --silent schema > made.json
	@mv .cache/grafana-schema/made.json deploy/grafana/schema/dashboard.schema.json
generated-check: setup
	@set -e; for generator in $(GENERATORS); do $(BIN)/python -m $$generator --check; done
wheel-check: setup
	$(BIN)/python -m deploy.local.wheel
