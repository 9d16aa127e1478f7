# shellcheck shell=bash disable=SC2154 # state and logs are set where this is sourced
# What envoy/up.sh starts, watches and stops.

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

# await COMMAND...: the last one started must be running, and the command succeed within 60 s.
await() {
  local pid=${order[-1]} deadline=$((SECONDS + 60))
  until "$@" >/dev/null 2>&1; do
    kill -0 "$pid" 2>/dev/null || report_ended "${names[$pid]}"
    ((SECONDS < deadline)) || fail "${names[$pid]} does not get ready: $* (see $logs/${names[$pid]}.log)"
    sleep 0.1
  done
}

# await_url URL: the same, with an answer 2xx.
await_url() {
  await curl -fs -o /dev/null --max-time 1 "$1"
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
