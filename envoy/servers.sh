# shellcheck shell=bash disable=SC2154 # root, state and shape are set where this is sourced
# The servers of the shapes full and cluster: on 127.0.0.1, with their data in the state folder.

export EDGELINK_API2_PORT=${EDGELINK_API2_PORT:-8082}
export EDGELINK_MARIADB_PORT=${EDGELINK_MARIADB_PORT:-3307}
export EDGELINK_REDIS_PORT=${EDGELINK_REDIS_PORT:-6380}
export EDGELINK_CLICKHOUSE_PORT=${EDGELINK_CLICKHOUSE_PORT:-8124}
EDGELINK_PROMETHEUS_PORT=${EDGELINK_PROMETHEUS_PORT:-9090}
export -n EDGELINK_PROMETHEUS_PORT EDGELINK_OBSERVE # the control plane would call them unknown
export EDGELINK_ANALYTICS_ENGINE=${EDGELINK_ANALYTICS_ENGINE:-sql}
PATH=$PATH:/usr/sbin:/sbin
readonly cluster_nodes=6
readonly chdb=$root/.edgelink/chdb/bin/python3

# Programs and ports, before anything is started.
servers_are_possible() {
  local program index
  for program in mariadbd mariadb-install-db mariadb redis-server redis-cli; do
    command -v "$program" >/dev/null || fail "$program is missing (make setup installs it)"
  done
  port_is_free "$EDGELINK_API2_PORT" EDGELINK_API2_PORT
  port_is_free "$EDGELINK_MARIADB_PORT" EDGELINK_MARIADB_PORT
  port_is_free "$EDGELINK_REDIS_PORT" EDGELINK_REDIS_PORT
  if wants_clickhouse; then
    [[ -x $chdb ]] || fail 'chdb is missing (make ANALYTICS=clickhouse run-full installs it)'
    port_is_free "$EDGELINK_CLICKHOUSE_PORT" EDGELINK_CLICKHOUSE_PORT
  fi
  if wants_prometheus; then
    command -v prometheus >/dev/null || fail 'prometheus is missing (make OBSERVE=1 run-full installs it)'
    port_is_free "$EDGELINK_PROMETHEUS_PORT" EDGELINK_PROMETHEUS_PORT
  fi
  [[ $shape == cluster ]] || return 0
  for ((index = 1; index < 2 * cluster_nodes; index++)); do
    port_is_free $((EDGELINK_REDIS_PORT + index)) EDGELINK_REDIS_PORT
  done
}

# MariaDB refuses to run as root without `--user`.
mariadb_user() {
  if [[ $(id -u) == 0 ]]; then printf -- '--user=root'; fi
}

# Makes the system tables; a first start that is interrupted leaves nothing half made behind.
install_mariadb() {
  [[ ! -d $state/mariadb ]] || return 0
  rm -rf "$state/mariadb.new"
  # shellcheck disable=SC2046 # no option is no argument
  mariadb-install-db --no-defaults --skip-test-db --auth-root-authentication-method=normal \
    --datadir="$state/mariadb.new" --tmpdir="$state" $(mariadb_user) >"$logs/mariadb-install.log" 2>&1 ||
    fail "mariadb-install-db failed (see $logs/mariadb-install.log)"
  mv "$state/mariadb.new" "$state/mariadb"
}

ask_mariadb() {
  mariadb --no-defaults --protocol=tcp --host=127.0.0.1 --port="$EDGELINK_MARIADB_PORT" --user=root --execute="$1"
}

start_mariadb() {
  install_mariadb
  # The socket is named relative to the data, since its path must not be long.
  # shellcheck disable=SC2046 # no option is no argument
  start mariadb mariadbd --no-defaults --datadir="$state/mariadb" --tmpdir="$state" --socket=mariadbd.sock \
    --bind-address=127.0.0.1 --port="$EDGELINK_MARIADB_PORT" --skip-name-resolve $(mariadb_user)
  await ask_mariadb 'CREATE DATABASE IF NOT EXISTS edgelink'
}

# Whether clicks are kept there, by a URL that is not given.
wants_clickhouse() {
  [[ $EDGELINK_ANALYTICS_ENGINE == clickhouse && -z ${EDGELINK_ANALYTICS_CLICKHOUSE_URL:-} ]]
}

# chdb, ClickHouse in a process, behind an interface by HTTP that works on one request at a time.
start_clickhouse() {
  local home=$state/chdb
  mkdir -p "$home"
  start clickhouse "$chdb" "$root/tests/clickhouse/chdb_http.py" --folder "$home" --port "$EDGELINK_CLICKHOUSE_PORT"
  await_url "http://127.0.0.1:$EDGELINK_CLICKHOUSE_PORT/ping"
  export EDGELINK_ANALYTICS_CLICKHOUSE_URL=http://127.0.0.1:$EDGELINK_CLICKHOUSE_PORT
}

wants_prometheus() {
  [[ -n ${EDGELINK_OBSERVE:-} && $EDGELINK_OBSERVE != 0 ]]
}

# With the rules of envoy/deploy/observe, and what runs here as its targets.
# shellcheck disable=SC2153 # EDGELINK_API_PORT is set in up.sh
start_prometheus() {
  local home=$state/prometheus
  mkdir -p "$home/targets"
  cp "$root"/envoy/deploy/observe/{prometheus,rules}.yml "$home"
  printf '[{ "targets": ["127.0.0.1:%s"] }]\n' "$EDGELINK_ADMIN_PORT" >"$home/targets/edge.json"
  printf '[{ "targets": ["127.0.0.1:%s", "127.0.0.1:%s"] }]\n' "$EDGELINK_API_PORT" "$EDGELINK_API2_PORT" \
    >"$home/targets/control-plane.json"
  printf '[{ "targets": ["127.0.0.1:%s", "127.0.0.1:%s"] }]\n' "$EDGELINK_FRONT_METRICS_PORT" "$EDGELINK_FRONT_EVENTS_PORT" \
    >"$home/targets/nginx.json"
  start prometheus prometheus --config.file="$home/prometheus.yml" --storage.tsdb.path="$home/data" \
    --storage.tsdb.retention.time=2d --web.listen-address="127.0.0.1:$EDGELINK_PROMETHEUS_PORT" --log.level=warn
  await_url "http://127.0.0.1:$EDGELINK_PROMETHEUS_PORT/-/ready"
}

# start_redis NAME PORT OPTION...: links go where memory ends, the feed and locks stay.
start_redis() {
  mkdir -p "$state/$1"
  start "$1" redis-server --port "$2" --bind 127.0.0.1 --dir "$state/$1" --save '' --appendonly yes \
    --maxmemory 256mb --maxmemory-policy volatile-lru --daemonize no "${@:3}"
  await redis_answers "$2"
}

redis_answers() {
  [[ $(redis-cli -p "$1" PING) == PONG ]]
}

start_redis_full() {
  start_redis redis "$EDGELINK_REDIS_PORT"
  export EDGELINK_REDIS_URL=redis://127.0.0.1:$EDGELINK_REDIS_PORT
  export EDGELINK_REDIS=direct EDGELINK_REDIS_SERVERS=127.0.0.1:$EDGELINK_REDIS_PORT
  export EDGELINK_FEED=${EDGELINK_FEED:-poll}
}

# Six nodes on ports one behind the other, and their buses behind them.
start_redis_cluster() {
  local index port nodes=()
  for ((index = 0; index < cluster_nodes; index++)); do
    port=$((EDGELINK_REDIS_PORT + index))
    start_redis "redis-$port" "$port" --cluster-enabled yes --cluster-port $((port + cluster_nodes)) \
      --cluster-node-timeout 5000 --repl-diskless-sync-delay 0
    nodes+=("127.0.0.1:$port")
  done
  form_cluster "${nodes[@]}"
  export EDGELINK_REDIS=cluster EDGELINK_FEED=${EDGELINK_FEED:-poll}
  EDGELINK_REDIS_SERVERS=$(IFS=, && printf '%s' "${nodes[*]}")
  EDGELINK_REDIS_URL="redis-cluster://${nodes[0]}?$(printf 'node=%s&' "${nodes[@]:1}")"
  EDGELINK_REDIS_URL=${EDGELINK_REDIS_URL%&}
  export EDGELINK_REDIS_SERVERS EDGELINK_REDIS_URL
}

# Three masters with a replica each; nodes that have been a cluster find each other again.
form_cluster() {
  if redis-cli -p "$EDGELINK_REDIS_PORT" CLUSTER INFO | grep -q 'cluster_known_nodes:1[^0-9]*$'; then
    redis-cli --cluster create "$@" --cluster-replicas 1 --cluster-yes >"$logs/redis-cluster.log" ||
      fail "the cluster could not be formed (see $logs/redis-cluster.log)"
  fi
  await cluster_is_whole
}

cluster_is_whole() {
  local index
  for ((index = 0; index < cluster_nodes; index++)); do
    redis-cli -p $((EDGELINK_REDIS_PORT + index)) CLUSTER INFO | grep -q cluster_state:ok || return 1
  done
}
