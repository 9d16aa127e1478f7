# edgelink: `make run` to use it, `make test` to check it, `make help` for the rest.

SHELL := /bin/bash
.DELETE_ON_ERROR:

# What Envoy loads. The filter's crate builds for wasm only; what it decides is in its core, which is tested natively.
WASM_TARGET := wasm32-wasip1
WASM_PACKAGES := -p edgelink-filter -p edgelink-resp-bridge
# The smallest filters that redirect, which benchmarks compare with.
HELLO_PACKAGES := -p edgelink-hello-bare -p edgelink-hello-hostcalls -p edgelink-hello-sdk
# With one set of features, so that tests, drills, nemesis and benchmarks share what is built.
NATIVE := --workspace --exclude edgelink-filter --features edgelink-control-plane/zookeeper

# The profile of the control plane that `make run` starts: quick, or release for speed, which takes minutes to build, or dev.
PROFILE ?= quick
RUN_WASM_PROFILE := $(if $(filter quick,$(PROFILE)),quick-wasm,wasm)
# What the filter is that `make run` starts: wasm, or native (the book: control-plane/book/docs/operate/native.md), or nginx, with the
# module and without Envoy (nginx-module.md there).
FILTER := $(or $(FILTER),$(EDGELINK_FILTER),wasm)
$(if $(filter-out wasm native nginx,$(FILTER)),$(error FILTER must be wasm, native or nginx, not '$(FILTER)'))

PORTABLE_TARGET := $(shell uname -m)-unknown-linux-gnu
PORTABLE_BUILT = $(abspath $(or $(CARGO_TARGET_DIR),target))/$(PORTABLE_TARGET)/release/libedgelink.so

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: setup-run run-parts ## Build and run control plane and Envoy; Ctrl-C stops both
	@exec envoy/up.sh $(PROFILE)

.PHONY: run-full
run-full: setup-full run-parts ## The production shape: MariaDB, Redis, two control planes, Envoy, nginx; ANALYTICS=clickhouse, OBSERVE=1
	@exec envoy/up.sh $(PROFILE) full

.PHONY: run-cluster
run-cluster: setup-full run-parts ## The same on a Redis Cluster of three masters and three replicas
	@exec envoy/up.sh $(PROFILE) cluster

run run-full run-cluster: export EDGELINK_FILTER := $(FILTER)
run-full run-cluster: export EDGELINK_ANALYTICS_ENGINE = $(or $(ANALYTICS),sql)
run-full run-cluster: export EDGELINK_OBSERVE = $(OBSERVE)

.PHONY: run-parts
run-parts: console
ifeq ($(FILTER),native)
	cargo build --profile $(PROFILE) -p edgelink-native
else ifeq ($(FILTER),nginx)
	@tests/install.sh nginx-module
	nginx/module/build.sh $(PROFILE)
else
	cargo build --profile $(RUN_WASM_PROFILE) --target $(WASM_TARGET) $(WASM_PACKAGES)
endif
	cargo build --profile $(PROFILE) -p edgelink-control-plane

.PHONY: release
release: setup-run wasm console ## Build what is to be deployed, optimized as a whole
	cargo build --release -p edgelink-control-plane --features zookeeper

.PHONY: deb
deb: release native-portable ## Build a Debian package of control plane and edge, and check what is in it
	@tests/deploy/deb.sh

.PHONY: wasm
wasm: ## Build the modules that Envoy loads
	cargo build --profile wasm --target $(WASM_TARGET) $(WASM_PACKAGES)

.PHONY: native
native: ## Build the native module, which Envoy can load in place of the Wasm module, for this machine
	cargo build --release -p edgelink-native

.PHONY: native-portable
native-portable: ## Build it for any Linux with glibc 2.28 or newer and without libgcc, as packages and images have it, and check that it is
	@tests/install.sh native
	PATH=$(abspath .edgelink/zig/bin):$$PATH cargo zigbuild --release --target $(PORTABLE_TARGET).2.28 -p edgelink-native
	EDGELINK_NATIVE=$(PORTABLE_BUILT) EDGELINK_TEST_PORTABLE=1 cargo test $(NATIVE) --test e2e native_abi::
	install -D -m 644 $(PORTABLE_BUILT) $(abspath $(or $(CARGO_TARGET_DIR),target))/portable/libedgelink.so

.PHONY: nginx-module
nginx-module: ## Build the module of nginx for that of Debian, or another one (NGINX_BUILD_DIR=FOLDER, NGINX_STABLE=1)
	@tests/install.sh nginx-module
	nginx/module/build.sh

.PHONY: nginx-deb
nginx-deb: nginx-module ## Build a Debian package of it, and check what is in it
	@nginx/module/deb.sh

.PHONY: console
console: ## Build what the console's pages run in the browser; without it they do without script
	@control-plane/console/build.sh

# Tests wait for servers more than they compute.
test: export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(nproc))))
# The native module as the tests have it: with the profile and the features of the crates of the tests, which are built anyway.
test test-deploy: export EDGELINK_NATIVE = $(abspath $(or $(CARGO_TARGET_DIR),target))/debug/libedgelink.so

.PHONY: test
test: setup wasm console ## Run every test, with real Envoy and real databases
	cargo build --profile wasm --target $(WASM_TARGET) -p edgelink-abi-probe
	nginx/module/build.sh dev
	cargo build $(NATIVE) --lib --tests
	cargo test $(NATIVE) --lib --bins --tests
	@tests/deploy/check.sh

.PHONY: abi
abi: setup wasm ## Compare the wasmtime host with real Envoy, hostcall by hostcall
	cargo build --profile wasm --target $(WASM_TARGET) -p edgelink-abi-probe
	cargo test $(NATIVE) --test filter abi::

.PHONY: check
check: ## Check formatting, and lints and unit tests of the crates that have changed since BASE (HEAD)
	@tests/check.sh $(or $(BASE),HEAD)

.PHONY: sanitize
sanitize: ## Call the hooks of the native module, and what it has in common with nginx's, under AddressSanitizer
	LSAN_OPTIONS=suppressions=$(abspath filter/native/leaks.txt) RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=$(abspath $(or $(CARGO_TARGET_DIR),target))/sanitize \
	  cargo test -p edgelink-native -p edgelink-process --lib --target $(PORTABLE_TARGET)

.PHONY: valgrind
valgrind: setup wasm ## Run the tests of nginx's module with nginx under memcheck
	@tests/install.sh valgrind
	nginx/module/build.sh dev
	cargo build $(NATIVE) --lib --bin edgelink
	tests/valgrind.sh $(NATIVE)

.PHONY: test-native
test-native: setup wasm native ## Run the end-to-end tests with the native module in place of the Wasm module (TESTS)
	EDGELINK_TEST_FILTER=native cargo test $(NATIVE) --test e2e $(TESTS)

.PHONY: test-nginx
test-nginx: setup wasm nginx-module ## Run them with the module of nginx in place of Envoy (TESTS)
	EDGELINK_TEST_FILTER=nginx cargo test $(NATIVE) --test e2e $(TESTS)

.PHONY: test-deploy
test-deploy: setup wasm ## Check envoy/deploy: rules, dashboards, units, images, resources; Envoy's fragments by Envoy
	cargo build $(NATIVE) --lib --bin edgelink
	@tests/deploy/check.sh

.PHONY: drill-alerts
drill-alerts: ## Cause what alerts are about on a running `make OBSERVE=1 run-full`, and see them fire and be quiet (CAUSES)
	@tests/deploy/drill.py $(or $(EDGELINK_STATE_DIR),.edgelink/full) $(CAUSES)

.PHONY: draw-dashboards
draw-dashboards: setup ## Draw the dashboards with what such a stack has done in the last half hour
	@node tests/deploy/dashboards.mjs http://127.0.0.1:$(or $(EDGELINK_PROMETHEUS_PORT),9090) envoy/deploy/observe/screenshots

.PHONY: reference
reference: ## Write the tables and the OpenAPI document that the code generates
	UPDATE_REFERENCE=1 cargo test $(NATIVE) --lib reference

.PHONY: book
book: ## Build the documentation as a site (target/book/index.html); fails where a link leads nowhere
	@tests/install.sh book
	.edgelink/book/bin/mkdocs build --strict --config-file control-plane/book/mkdocs.yml --site-dir $(abspath $(or $(CARGO_TARGET_DIR),target))/book

.PHONY: test-mysql
test-mysql: ## Run the store's tests on MySQL 9 (Debian; needs root for debootstrap)
	@tests/install.sh mysql
	tests/mysql9.sh

.PHONY: test-contract
test-contract: ## Send thousands of requests by the OpenAPI document, right and wrong ones (schemathesis; EXAMPLES)
	@tests/install.sh contract
	cargo build $(NATIVE) --bin edgelink
	tests/contract/run.sh --max-examples $(or $(EXAMPLES),150)

.PHONY: test-urls
test-urls: setup wasm ## Create all 48,009 real URLs through the API and follow them through Envoy
	cargo build $(NATIVE) --bin edgelink
	EDGELINK_EVERY_URL=1 cargo test $(NATIVE) --test e2e urls:: -- --nocapture

.PHONY: test-import
test-import: ## Import 100,000 links each in the formats of Shlink and YOURLS, twice, and count
	EDGELINK_IMPORT_LINKS=100000 cargo test $(NATIVE) --test api migration::links_when_imported -- --nocapture

# Drills, on a control plane built for release: `make DRILL_PROFILE=dev chaos-issuers` for a quicker build.
DRILL_PROFILE ?= release
DRILL_FOLDER := $(if $(filter dev,$(DRILL_PROFILE)),debug,$(DRILL_PROFILE))
DRILLS := chaos-issuers skipped-numbers stalled-database throughput import-urls issuer-sources galera \
  show-redis cluster-failover click-accounting front-crowd restore soak
chaos-issuers: DRILL := chaos::chaos
skipped-numbers: DRILL := restarts::skipped
stalled-database: DRILL := stall::stalled
throughput: DRILL := throughput::throughput
import-urls: DRILL := importing::import
issuer-sources: DRILL := sources::sources
galera: DRILL := galera::galera galera::visits
show-redis: DRILL := connections::connections propagation::propagation scanning::scanning flush::flush
cluster-failover: DRILL := failover::failover
click-accounting: DRILL := clicks::clicks clicks::clicks_in_clickhouse clicks::losses
front-crowd: DRILL := crowd::crowd
restore: DRILL := restore::restore
soak: DRILL := soak::soak

.PHONY: $(DRILLS)
chaos-issuers: ## Kill control planes and MariaDB for a minute: nothing lost, nothing twice
skipped-numbers: ## Count the numbers that restarts skip
stalled-database: ## Stop MariaDB for a minute: 503 in time, and all well soon after
throughput: ## Measure creation beside bare INSERTs
import-urls: ## Import 48,009 real URLs
issuer-sources: ## Create and follow links with every source of numbers
show-redis: ## Connections, changes, scans and FLUSHALL at two Envoys: figures of each
cluster-failover: ## Kill a master of Redis Cluster under load
click-accounting: ## Count a million clicks, in both engines, while all parts are killed and stopped; and losses
front-crowd: ## Follow links through nginx beside 10,000 idle connections, slow clients and resets of HTTP/2: figures of each
soak: ## Change the listener of an Envoy under mixed load for an hour: it does not grow, and no answer is wrong
galera: setup-galera ## Kill nodes of a Galera cluster in turn while two control planes create: nothing lost, nothing twice
restore: setup-restore ## Lose the database, and restore it by the runbook's commands: nothing stale, no number twice
$(DRILLS): setup wasm
	cargo build --profile $(DRILL_PROFILE) $(NATIVE) --bin edgelink
	EDGELINK_TEST_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/$(DRILL_FOLDER)/edgelink \
	  cargo test $(NATIVE) --test drill -- --ignored --exact --nocapture --test-threads 1 $(DRILL)

# `make ROW=snapshot_transaction pressure` has one of them.
.PHONY: pressure
pressure: DRILL := pressure::
pressure: setup wasm ## What others notice of one locked row, one client, one long transaction: figures of each
	cargo build --profile $(DRILL_PROFILE) $(NATIVE) --bin edgelink
	EDGELINK_TEST_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/$(DRILL_FOLDER)/edgelink \
	  cargo test $(NATIVE) --test drill -- --ignored --nocapture --test-threads 1 $(DRILL)$(ROW)

.PHONY: plans
plans: setup ## Explain and run every statement of the store on a million links (LINKS), with old and new statistics
	EDGELINK_TEST_PLANS_LINKS=$(or $(LINKS),1000000) cargo test $(NATIVE) --test servers -- --ignored --nocapture store::statements::

# `make UPGRADE_FROM=COMMIT upgrade` begins with another version than the one that tests/upgrade.sh names.
.PHONY: upgrade
upgrade: setup wasm ## Roll an earlier version to this one and back, under creation and redirects: no error, nothing lost
	DRILL_PROFILE=$(DRILL_PROFILE) tests/upgrade.sh $(UPGRADE_FROM)
	cargo build --profile $(DRILL_PROFILE) $(NATIVE) --bin edgelink
	EDGELINK_TEST_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/$(DRILL_FOLDER)/edgelink \
	  cargo test $(NATIVE) --test drill -- --ignored --exact --nocapture upgrade::upgrade

.PHONY: envoy-spin
envoy-spin: setup wasm ## See whether Envoy still never returns from a second gRPC stream that fails at once
	cargo build --profile wasm --target $(WASM_TARGET) -p edgelink-abi-probe
	cargo test $(NATIVE) --test drill -- --ignored --nocapture envoy_spin::

# The nemesis: `make MINUTES=10 SEED=42 SHAPE=cluster nemesis`; without a seed the time chooses one, which is printed first.
# FAULTS='kill,redis older' has faults of these kinds only, PRESSURE=0 none that only press; CHECK=history.jsonl judges the history of an
# earlier run, and KEEP=1 keeps it where no promise was broken.
NEMESIS_PROFILE ?= dev
NEMESIS_FOLDER := $(if $(filter dev,$(NEMESIS_PROFILE)),debug,$(NEMESIS_PROFILE))
.PHONY: nemesis
nemesis: setup wasm ## Break everything at random while clients watch, and judge what they saw (MINUTES, SEED, SHAPE)
	cargo build --profile $(NEMESIS_PROFILE) $(NATIVE) --bin edgelink
	EDGELINK_TEST_BIN=$(abspath $(or $(CARGO_TARGET_DIR),target))/$(NEMESIS_FOLDER)/edgelink \
	  NEMESIS_MINUTES=$(MINUTES) NEMESIS_SEED=$(SEED) NEMESIS_SHAPE=$(SHAPE) \
	  NEMESIS_CHECK=$(abspath $(CHECK)) NEMESIS_FAULTS="$(FAULTS)" NEMESIS_PRESSURE=$(PRESSURE) NEMESIS_KEEP=$(KEEP) \
	  cargo test $(NATIVE) --test drill -- --ignored --exact --nocapture nemesis::nemesis

# Whether the nemesis bites: each patch of tests/bites takes something out of the control plane, and the nemesis has to find it.
# `make WITHOUT=tests/bites/grace.patch nemesis-bites` has one of them.
.PHONY: nemesis-bites
nemesis-bites: setup wasm ## Take parts out of the control plane, one at a time, and have the nemesis find each (WITHOUT, MINUTES, SEED)
	NEMESIS_MINUTES=$(or $(MINUTES),10) NEMESIS_SEED=$(SEED) tests/bites.sh $(or $(WITHOUT),$(wildcard tests/bites/*.patch))

# Benchmarks, beside a control plane built for release: `make BENCH_PROFILE=dev BENCH_OPTIONS=--short bench` to try them
# out. One table alone: `make bench-zipf`; `make bench-redirects BENCH_OPTIONS='--only lru'`.
# With EDGELINK_OTHER_WASM=FILE, the LRU hit of another build of the filter stands beside that of this one.
BENCH_PROFILE ?= release
BENCH_OPTIONS ?=
BENCH_FOLDER := $(if $(filter dev,$(BENCH_PROFILE)),debug,$(BENCH_PROFILE))
RUN_BENCH := $(or $(CARGO_TARGET_DIR),target)/debug/bench
BENCH_TABLES := redirects zipf zipf-core rows creation memory startup reloads changes feed fuel search delay questions ingest
bench cpu $(BENCH_TABLES:%=bench-%): export EDGELINK_TEST_BIN = $(abspath $(or $(CARGO_TARGET_DIR),target))/$(BENCH_FOLDER)/edgelink
bench bench-creation: export DRILL_PROFILE = $(BENCH_PROFILE)

.PHONY: bench
bench: bench-programs ## Measure everything side by side and write tests/bench/RESULTS.md
	$(RUN_BENCH) all $(BENCH_OPTIONS)

.PHONY: cpu
cpu: bench-programs ## Measure the CPU of a redirect by tier against Envoy's own
	$(RUN_BENCH) cpu $(BENCH_OPTIONS)

.PHONY: $(BENCH_TABLES:%=bench-%)
$(BENCH_TABLES:%=bench-%): bench-%: bench-programs
	$(RUN_BENCH) $* $(BENCH_OPTIONS)

.PHONY: bench-programs
bench-programs: wasm native nginx-module
	@tests/install.sh bench
	cargo build --profile wasm --target $(WASM_TARGET) $(HELLO_PACKAGES)
	cargo build --release -p edgelink-simulation
	cargo build $(NATIVE) --bin bench
	cargo build --profile $(BENCH_PROFILE) -p edgelink-control-plane -p edgelink-bench-clicks --features edgelink-control-plane/zookeeper

.PHONY: lint
lint: setup-lint ## Check formatting, lints, scripts, the figures of the house, and the crates of others
	cargo fmt --all --check
	cargo clippy $(NATIVE) --all-targets -- -D warnings
	cargo fmt --manifest-path nginx/module/Cargo.toml --check
	@if [ -e /usr/share/nginx/src/conf_flags ]; then nginx/module/build.sh clippy; else echo "nginx-dev is not installed: the module of nginx not checked"; fi
	cargo clippy $(WASM_PACKAGES) $(HELLO_PACKAGES) -p edgelink-abi-probe --profile wasm --target $(WASM_TARGET) -- -D warnings
	@if command -v shellcheck >/dev/null; then shellcheck $$(git ls-files '*.sh' .ci/run); else echo "shellcheck is not installed: scripts not checked"; fi
	tests/house.py
	@for patch in tests/bites/*.patch; do git apply --check $$patch || exit; done
	tests/deny.sh

.PHONY: setup
setup: ## Install what build and tests need (Debian packages, wasm target, Envoy)
	@tests/install.sh test

.PHONY: setup-run
setup-run:
	@tests/install.sh run

.PHONY: setup-full
setup-full:
	@tests/install.sh full $(ANALYTICS) $(if $(filter-out 0,$(OBSERVE)),prometheus)

.PHONY: setup-galera
setup-galera:
	@tests/install.sh galera

.PHONY: setup-restore
setup-restore:
	@tests/install.sh restore

.PHONY: setup-lint
setup-lint:
	@tests/install.sh lint

.PHONY: clean
clean: ## Remove what was built and the state of `make run`; installed programs stay
	cargo clean
	rm -f control-plane/console/dist/*
	@if [ -d .edgelink ]; then find .edgelink -mindepth 1 -maxdepth 1 ! -name envoy ! -name cargo-deny ! -name oha ! -name schemathesis ! -name chdb ! -name deploy-checks ! -name rust-src ! -name zig ! -name book -exec rm -rf {} +; fi
