#!/usr/bin/env bash
# `make run`: the control plane (SQLite, no other server) and Envoy with the filter, in this terminal, until Ctrl-C or
# until one of them ends. State, logs and keys stay in .edgelink/ and are found again by the next start.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
profile=${1:-release}
[[ $profile == dev ]] && profile=debug
target=${CARGO_TARGET_DIR:-$root/target}
edgelink=$target/$profile/edgelink

export EDGELINK_STATE_DIR=${EDGELINK_STATE_DIR:-$root/.edgelink}
export EDGELINK_EDGE_PORT=${EDGELINK_EDGE_PORT:-8080}
export EDGELINK_API_PORT=${EDGELINK_API_PORT:-8081}
export EDGELINK_ADMIN_PORT=${EDGELINK_ADMIN_PORT:-9901}
export EDGELINK_DOMAINS=${EDGELINK_DOMAINS:-127.0.0.1:$EDGELINK_EDGE_PORT}
export EDGELINK_EDGE_TOKEN_FILE=$EDGELINK_STATE_DIR/edge-token
export EDGELINK_WASM=${EDGELINK_WASM:-$target/wasm32-wasip1/wasm/edgelink_filter.wasm}
export EDGELINK_TIER_HEADER=${EDGELINK_TIER_HEADER:-true}
state=$EDGELINK_STATE_DIR
logs=$state/log
api=http://127.0.0.1:$EDGELINK_API_PORT
edge=http://127.0.0.1:$EDGELINK_EDGE_PORT
declare -A names # of what runs, by process id
order=()         # in which it was started

fail() {
  printf 'edgelink: %s\n' "$*" >&2
  exit 1
}

# port_is_free PORT VARIABLE. Asked first: two Envoys would share a port without a word.
port_is_free() {
  if (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; then fail "port $1 is taken; choose another with $2=..."; fi
}

# secret FILE BYTES: hexadecimal, made once.
secret() {
  [[ -s $1 ]] || od -An -v -tx1 -N "$2" /dev/urandom | tr -d ' \n' >"$1"
}

# start NAME COMMAND...: in a process group of its own, so that Ctrl-C reaches this script alone.
start() {
  local name=$1
  shift
  set -m
  "$@" >"$logs/$name.log" 2>&1 </dev/null &
  set +m
  printf '%s\n' $! >"$state/$name.pid"
  names[$!]=$name
  order+=($!)
}

report_ended() {
  printf '\nedgelink: %s ended unexpectedly. The end of %s:\n' "$1" "$logs/$1.log" >&2
  tail -n 15 "$logs/$1.log" >&2
  exit 1
}

# The last one started must be running, and answer 2xx at URL within 30 s.
await() {
  local pid=${order[-1]} deadline=$((SECONDS + 30))
  until curl -fs -o /dev/null --max-time 1 "$1"; do
    kill -0 "$pid" 2>/dev/null || report_ended "${names[$pid]}"
    ((SECONDS < deadline)) || fail "${names[$pid]} does not answer at $1 (see $logs/${names[$pid]}.log)"
    sleep 0.1
  done
}

# Looks again and again, because `wait -n` misses what has ended before it is called.
await_any_end() {
  local pid
  while sleep 0.2; do
    for pid in "${order[@]}"; do
      kill -0 "$pid" 2>/dev/null || report_ended "${names[$pid]}"
    done
  done
}

# shellcheck disable=SC2329 # called by the trap
stop_all() {
  trap '' INT TERM HUP
  local index
  for ((index = ${#order[@]} - 1; index >= 0; index--)); do
    kill -TERM "${order[index]}" 2>/dev/null || continue
    wait "${order[index]}" 2>/dev/null || true
  done
  rm -f "$state"/*.pid
}

start_control_plane() {
  EDGELINK_LISTEN=127.0.0.1:$EDGELINK_API_PORT \
  EDGELINK_DATABASE_URL=${EDGELINK_DATABASE_URL:-sqlite://$state/edgelink.db} \
  EDGELINK_SHORT_URL_SCHEME=${EDGELINK_SHORT_URL_SCHEME:-http} \
  EDGELINK_CODE_KEY_FILE=$state/code-key \
  EDGELINK_ADMIN_KEY_FILE=$state/admin-key \
    start control-plane "$edgelink" serve
  await "$api/health/ready"
}

start_envoy() {
  start envoy "$root/envoy/run.sh"
  await "$edge/health/live"
}

print_tour() {
  cat <<TOUR

edgelink is ready. Ctrl-C stops it.

  edge         $edge
  API          $api/api/v1
  Envoy admin  http://127.0.0.1:$EDGELINK_ADMIN_PORT
  admin key    $state/admin-key
  logs         $logs/
  process ids  $state/control-plane.pid, $state/envoy.pid

Create a link, and follow the shortUrl of the answer:

  curl -s -XPOST -H "X-Api-Key: \$(cat $state/admin-key)" -H 'content-type: application/json' \\
    -d '{"longUrl":"https://example.com/a?b=1"}' $api/api/v1/links

  curl -i $edge/<shortCode>     # 302, x-edgelink-tier: control-plane, then lru

TOUR
}

[[ -x $edgelink ]] || fail "$edgelink is not built (make run builds it)"
port_is_free "$EDGELINK_EDGE_PORT" EDGELINK_EDGE_PORT
port_is_free "$EDGELINK_API_PORT" EDGELINK_API_PORT
port_is_free "$EDGELINK_ADMIN_PORT" EDGELINK_ADMIN_PORT
umask 077
mkdir -p "$logs"
secret "$state/edge-token" 32
secret "$state/code-key" 16

trap stop_all EXIT
trap 'trap "" INT TERM HUP; printf "\nedgelink: stopping\n"; exit 0' INT TERM HUP
start_control_plane
start_envoy
print_tour
await_any_end
