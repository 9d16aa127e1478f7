#!/usr/bin/env bash
# Runs edgelink in this terminal until Ctrl-C or SIGTERM: `up.sh [PROFILE [SHAPE]]`. Shapes:
#   small    `make run`: the control plane (SQLite, no other server) and Envoy. When one ends, the other is stopped
#   full     `make run-full`: MariaDB, Redis, two control planes, Envoy that asks Redis directly, and nginx in front
#   cluster  `make run-cluster`: the same with a Redis Cluster, which Envoy asks through its pool
# With EDGELINK_FILTER=nginx (`make FILTER=nginx run`) there is no Envoy: nginx itself is the edge, with edgelink's module.
# The latter two start ClickHouse too if EDGELINK_ANALYTICS_ENGINE is clickhouse (`make ANALYTICS=clickhouse run-full`),
# and Prometheus if EDGELINK_OBSERVE is 1 (`make OBSERVE=1 run-full`).
# A part of the latter two that ends is started again; one that ends again and again ends everything.
# State, logs and keys stay in .edgelink/ (.edgelink/SHAPE for the latter two) and are found again by the next start.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
profile=${1:-quick}
[[ $profile == dev ]] && profile=debug
shape=${2:-small}
target=${CARGO_TARGET_DIR:-$root/target}
edgelink=$target/$profile/edgelink
modules=$target/wasm32-wasip1/wasm
[[ $profile != quick ]] || modules=$target/wasm32-wasip1/quick-wasm

state=${EDGELINK_STATE_DIR:-$root/.edgelink}
[[ $shape == small || -n ${EDGELINK_STATE_DIR:-} ]] || state=$state/$shape
export EDGELINK_STATE_DIR=$state
export EDGELINK_EDGE_PORT=${EDGELINK_EDGE_PORT:-8080}
export EDGELINK_API_PORT=${EDGELINK_API_PORT:-8081}
export EDGELINK_ADMIN_PORT=${EDGELINK_ADMIN_PORT:-9901}
export EDGELINK_EDGE_TOKEN_FILE=$EDGELINK_STATE_DIR/edge-token
export EDGELINK_WASM=${EDGELINK_WASM:-$modules/edgelink_filter.wasm}
export EDGELINK_BRIDGE_WASM=${EDGELINK_BRIDGE_WASM:-$modules/edgelink_resp_bridge.wasm}
export EDGELINK_FILTER=${EDGELINK_FILTER:-wasm} # or native, or nginx
export EDGELINK_NATIVE=${EDGELINK_NATIVE:-$target/$profile/libedgelink.so}
export EDGELINK_TIER_HEADER=${EDGELINK_TIER_HEADER:-true}
export EDGELINK_CLICKS=${EDGELINK_CLICKS:-true}
# Of clicks at Envoy and at the control planes. Country and city are known only with headers that say so.
attributes=${EDGELINK_COUNTRY_HEADER:+country,}${EDGELINK_CITY_HEADER:+city,}userAgent,referrer,language,utm,rule,visitor
export EDGELINK_CLICKS_ATTRIBUTES=${EDGELINK_CLICKS_ATTRIBUTES-$attributes}
export EDGELINK_CLICKS_ORPHANS=${EDGELINK_CLICKS_ORPHANS:-true}
[[ -z ${EDGELINK_COUNTRY_HEADER:-} ]] || export EDGELINK_LINKS_COUNTRY_HEADER=$EDGELINK_COUNTRY_HEADER
[[ -z ${EDGELINK_CITY_HEADER:-} ]] || export EDGELINK_LINKS_CITY_HEADER=$EDGELINK_CITY_HEADER
[[ -z ${EDGELINK_PREFIX:-} ]] || export EDGELINK_LINKS_PREFIX=$EDGELINK_PREFIX
[[ -z ${EDGELINK_TRAILING_SLASH:-} ]] || export EDGELINK_LINKS_TRAILING_SLASH=$EDGELINK_TRAILING_SLASH
logs=$state/log
api=http://127.0.0.1:$EDGELINK_API_PORT
edge=http://127.0.0.1:$EDGELINK_EDGE_PORT

# shellcheck source=envoy/processes.sh
source "$root/envoy/processes.sh"
# shellcheck source=envoy/servers.sh
source "$root/envoy/servers.sh"
# shellcheck source=nginx/front.sh
source "$root/nginx/front.sh"
[[ $shape == small ]] || announce_front
export EDGELINK_DOMAINS=${EDGELINK_DOMAINS:-127.0.0.1:$EDGELINK_EDGE_PORT}

# start_control_plane NAME PORT
start_control_plane() {
  export EDGELINK_LINKS_SHORT_URL_SCHEME=${EDGELINK_LINKS_SHORT_URL_SCHEME:-http}
  export EDGELINK_SERVER_TRUSTED_PROXIES=${EDGELINK_SERVER_TRUSTED_PROXIES:-127.0.0.1} # Envoy, with pages for visitors
  export EDGELINK_LINKS_CODE_KEY_FILE=$state/code-key EDGELINK_AUTH_ADMIN_KEY_FILE=$state/admin-key
  export EDGELINK_LINKS_DOMAINS=$EDGELINK_DOMAINS EDGELINK_AUTH_EDGE_TOKEN_FILE=$EDGELINK_EDGE_TOKEN_FILE
  export EDGELINK_AUTH_EDGE_TOKENS=${EDGELINK_EDGE_TOKEN:-}
  local collector=${EDGELINK_OTLP:+http://${EDGELINK_OTLP%%,*}} # of Envoy's spans
  export EDGELINK_TELEMETRY_OTLP_URL=${EDGELINK_TELEMETRY_OTLP_URL:-$collector}
  start "$1" env EDGELINK_SERVER_LISTEN="127.0.0.1:$2" "$edgelink" serve
  await_url "http://127.0.0.1:$2/health/ready"
}

# nginx as the edge. All of its workers begin to read the feed as they start.
start_nginx_edge() {
  export EDGELINK_WORKERS=${EDGELINK_WORKERS:-$(getconf _NPROCESSORS_ONLN)}
  start nginx "$root/nginx/module/run.sh"
  await_url "$edge/health/ready"
}

start_envoy() {
  export EDGELINK_WORKERS=${EDGELINK_WORKERS:-$(getconf _NPROCESSORS_ONLN)}
  start envoy "$root/envoy/run.sh"
  await_url "$edge/health/ready"
  if [[ $EDGELINK_FEED != none ]]; then await every_worker_has_begun; fi
}

# A worker begins to read the feed with its first request, and what it has cached before that is up to 5 s old: it shall
# not be a visitor's. Which worker gets a connection is the kernel's choice; the path is none that a link could have.
every_worker_has_begun() {
  local gauge='(wasm|dynamicmodules)custom[.]edgelink[.]admission' edges=$EDGELINK_WORKERS
  [[ $EDGELINK_FILTER == wasm ]] || edges=1 # all workers have the same
  curl -s -o /dev/null --max-time 5 -H 'connection: close' "$edge/?[1-$((2 * EDGELINK_WORKERS))]"
  curl -s --max-time 1 "http://127.0.0.1:$EDGELINK_ADMIN_PORT/stats" --get --data-urlencode "filter=^$gauge\$" |
    grep -Eqx "$gauge: $edges"
}

start_small() {
  export EDGELINK_STORE_URL=${EDGELINK_STORE_URL:-sqlite://$state/edgelink.db}
  export EDGELINK_FEED=${EDGELINK_FEED:-poll}
  start_control_plane control-plane "$EDGELINK_API_PORT"
  if [[ $EDGELINK_FILTER == nginx ]]; then start_nginx_edge; else start_envoy; fi
}

# What full and cluster share. The first control plane makes the schema and the admin key.
start_production_shape() {
  start_mariadb
  export EDGELINK_STORE_URL=mysql://root@127.0.0.1:$EDGELINK_MARIADB_PORT/edgelink
  "start_redis_$shape"
  if wants_clickhouse; then start_clickhouse; fi
  start_control_plane control-plane "$EDGELINK_API_PORT"
  start_control_plane control-plane-2 "$EDGELINK_API2_PORT"
  export EDGELINK_CONTROL_PLANES=127.0.0.1:$EDGELINK_API_PORT,127.0.0.1:$EDGELINK_API2_PORT
  export EDGELINK_WORKERS=${EDGELINK_WORKERS:-2}
  [[ $EDGELINK_FILTER == nginx ]] || start_envoy
  start_front # which is the edge, where there is no Envoy
  if wants_prometheus; then start_prometheus; fi
}

print_tour() {
  local follow="curl -i $edge"
  [[ $shape == small ]] || follow="curl -ki $front"
  cat <<TOUR

edgelink is ready. Ctrl-C stops it.

  edge         $edge
  API          $api/api/v1
$(print_admin)
  admin key    $state/admin-key
  logs         $logs/
  process ids  $state/*.pid
$(print_servers)

Create a link, and follow the shortUrl of the answer:

  curl -s -XPOST -H "X-Api-Key: \$(cat $state/admin-key)" -H 'content-type: application/json' \\
    -d '{"longUrl":"https://example.com/a?b=1"}' $api/api/v1/links

  $follow/<shortCode>     # 302, x-edgelink-tier: lru

TOUR
}

print_admin() {
  local port=$EDGELINK_ADMIN_PORT
  [[ $shape == small ]] || port=$EDGELINK_FRONT_STATUS_PORT
  if [[ $EDGELINK_FILTER == nginx ]]; then
    printf '  metrics      http://127.0.0.1:%s/metrics\n' "$port"
  else
    printf '  Envoy admin  http://127.0.0.1:%s\n' "$EDGELINK_ADMIN_PORT"
  fi
}

# Those that the small shape has not.
print_servers() {
  [[ $shape != small ]] || return 0
  cat <<SERVERS
  nginx        $front, and http://127.0.0.1:$EDGELINK_HTTP_PORT, which leads there
  its metrics  http://127.0.0.1:$EDGELINK_FRONT_METRICS_PORT/metrics, http://127.0.0.1:$EDGELINK_FRONT_EVENTS_PORT/metrics
  second API   http://127.0.0.1:$EDGELINK_API2_PORT/api/v1
  MariaDB      mariadb -h127.0.0.1 -P$EDGELINK_MARIADB_PORT -uroot edgelink
  Redis        redis-cli -p $EDGELINK_REDIS_PORT
SERVERS
  [[ $EDGELINK_ANALYTICS_ENGINE != clickhouse ]] || printf '  ClickHouse   %s\n' "$EDGELINK_ANALYTICS_CLICKHOUSE_URL"
  ! wants_prometheus || printf '  Prometheus   http://127.0.0.1:%s/alerts\n' "$EDGELINK_PROMETHEUS_PORT"
}

[[ -x $edgelink ]] || fail "$edgelink is not built (make builds it)"
case $EDGELINK_FILTER in
wasm) module=$EDGELINK_WASM ;;
native) module=$EDGELINK_NATIVE ;;
nginx)
  # shellcheck source=nginx/shared.sh
  source "$root/nginx/shared.sh"
  export EDGELINK_NGINX_MODULE=${EDGELINK_NGINX_MODULE:-$(built_module "$target")}
  module=$EDGELINK_NGINX_MODULE
  [[ $shape == small ]] || edge=$front
  ;;
*) fail "EDGELINK_FILTER must be wasm, native or nginx, not '$EDGELINK_FILTER'" ;;
esac
[[ -r $module ]] || fail "$module is not built (make FILTER=$EDGELINK_FILTER run builds it)"
port_is_free "$EDGELINK_EDGE_PORT" EDGELINK_EDGE_PORT
port_is_free "$EDGELINK_API_PORT" EDGELINK_API_PORT
port_is_free "$EDGELINK_ADMIN_PORT" EDGELINK_ADMIN_PORT
umask 077
mkdir -p "$logs"
secret "$state/edge-token" 32
secret "$state/code-key" 16

trap stop_all EXIT
trap 'trap "" INT TERM HUP; printf "\nedgelink: stopping\n"; exit 0' INT TERM HUP
case $shape in
small) start_small ;;
full | cluster)
  servers_are_possible
  front_is_possible
  start_production_shape
  ;;
*) fail "there is no shape '$shape': small, full or cluster" ;;
esac
print_tour
case $shape in
small) watch end_with ;;
*) watch restart ;;
esac
