# shellcheck shell=bash disable=SC2154 # state and logs are set where this is sourced
# What envoy/up.sh starts, watches, starts again and stops.

declare -A pids     # of what runs, by name
declare -A commands # quoted, by name
declare -A began    # when it was started last, in SECONDS
declare -A failures # how often it has ended in a row soon after its start
declare -A due      # when it is started again, in SECONDS; none where it runs
order=()            # the names, as they were started

readonly soon=10         # seconds after its start within which a part ends too soon
readonly max_failures=5  # in a row, and everything is stopped
readonly stop_seconds=15 # until a part that was asked to end is killed

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

# start NAME PROGRAM ARGUMENT...
start() {
  local name=$1
  shift
  order+=("$name")
  commands[$name]=${*@Q}
  : >"$logs/$name.log"
  launch "$name"
}

# launch NAME: in a process group of its own, so that Ctrl-C reaches this script alone.
launch() {
  set -m
  eval "exec ${commands[$1]}" >>"$logs/$1.log" 2>&1 </dev/null &
  set +m
  pids[$1]=$!
  began[$1]=$SECONDS
  printf '%s\n' $! >"$state/$1.pid"
}

# pause SECONDS, without what bash itself has to say about a process that was killed meanwhile.
pause() {
  { sleep "$1"; } 2>/dev/null
}

is_running() {
  kill -0 "${pids[$1]}" 2>/dev/null
}

# report_ended NAME WHAT: shows why, and ends everything.
report_ended() {
  printf '\nedgelink: %s %s. The end of %s:\n' "$1" "$2" "$logs/$1.log" >&2
  tail -n 15 "$logs/$1.log" >&2
  exit 1
}

# await COMMAND...: the last one started must be running, and the command succeed within 60 s.
await() {
  local name=${order[-1]} deadline=$((SECONDS + 60))
  until "$@" >/dev/null 2>&1; do
    is_running "$name" || report_ended "$name" 'ended unexpectedly'
    ((SECONDS < deadline)) || fail "$name does not get ready: $* (see $logs/$name.log)"
    sleep 0.1
  done
}

# await_url URL: the same, with an answer 2xx.
await_url() {
  await curl -fs -o /dev/null --max-time 1 "$1"
}

# watch WHAT_TO_DO: called with the name of each part that does not run, for ever. It looks again and again, because
# `wait -n` misses what has ended before it is called.
watch() {
  local name
  while pause 0.2; do
    for name in "${order[@]}"; do
      is_running "$name" || "$1" "$name"
    done
  done
}

# shellcheck disable=SC2329 # given to watch
end_with() {
  report_ended "$1" 'ended unexpectedly'
}

# Starts a part again: at once, then after 1, 2 and 4 s if it ends soon after its start, as it does while another part
# that it needs is not back.
# shellcheck disable=SC2329 # given to watch
restart() {
  [[ -n ${due[$1]:-} ]] || plan_restart "$1"
  ((SECONDS >= due[$1])) || return 0
  due[$1]=''
  launch "$1"
}

plan_restart() {
  local name=$1 delay=0 status=0 how
  wait "${pids[$name]}" 2>/dev/null || status=$?
  kill -KILL -- "-${pids[$name]}" 2>/dev/null || true # its workers, which may hold ports
  how=$(name_status $status)
  if ((SECONDS - began[$name] > soon)); then failures[$name]=0; fi
  failures[$name]=$((${failures[$name]:-0} + 1))
  ((failures[$name] < max_failures)) ||
    report_ended "$name" "$how, $max_failures times in a row within $soon s of its start"
  if ((failures[$name] > 1)); then delay=$((1 << (failures[$name] - 2))); fi
  printf 'edgelink: %s %s; starting it again in %s s (log: %s)\n' "$name" "$how" "$delay" "$logs/$name.log"
  due[$name]=$((SECONDS + delay))
}

# name_status STATUS: of a process that has ended.
name_status() {
  if (($1 > 128)); then
    printf 'was ended by SIG%s' "$(kill -l $(($1 - 128)))"
  else
    printf 'ended with status %s' "$1"
  fi
}

# shellcheck disable=SC2329 # called by stop_all
kill_late() {
  printf 'edgelink: %s does not end within %s s, and is killed\n' "$1" "$stop_seconds" >&2
  kill -KILL -- "-${pids[$1]}" 2>/dev/null || true
}

# The last one started first. One that was stopped (SIGSTOP) must be continued to end; one that does not end is killed.
# shellcheck disable=SC2329 # called by the trap
stop_all() {
  trap '' INT TERM HUP
  local index pid deadline
  for ((index = ${#order[@]} - 1; index >= 0; index--)); do
    pid=${pids[${order[index]}]}
    kill -TERM "$pid" 2>/dev/null || continue
    kill -CONT "$pid" 2>/dev/null || true
    deadline=$((SECONDS + stop_seconds))
    while kill -0 "$pid" 2>/dev/null; do
      ((SECONDS < deadline)) || kill_late "${order[index]}"
      pause 0.05
    done
  done
  rm -f "$state"/*.pid
}
