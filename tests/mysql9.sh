#!/usr/bin/env bash
# Runs the store's tests on a real MySQL 9: Debian sid's, unpacked into a folder of its own, started privately on a free
# port, and stopped again. Needs debootstrap and root (or sudo). EDGELINK_STATE_DIR is where the folder is kept
# (default .edgelink), EDGELINK_DEBIAN_MIRROR where the packages come from. Arguments go to `cargo test`
# (default `store::`).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
state=${EDGELINK_STATE_DIR:-$root/.edgelink}/mysql9
mirror=${EDGELINK_DEBIAN_MIRROR:-} # none: debootstrap's own
system=$state/root
export PATH=$PATH:/usr/sbin:/sbin
run='' # the folder of this run, as the server sees it

fail() {
  printf 'mysql9: %s\n' "$*" >&2
  exit 1
}

as_root() {
  if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi
}

# The marker says that unpacking came to its end; anything else is thrown away.
unpack() {
  [[ ! -e $state/ready ]] || return 0
  command -v debootstrap >/dev/null || fail 'please install debootstrap (Debian: apt-get install debootstrap)'
  printf 'mysql9: unpacking MySQL from Debian sid\n'
  as_root rm -rf "$system"
  mkdir -p "$state"
  as_root debootstrap --variant=minbase --include=mysql-server-core sid "$system" ${mirror:+"$mirror"} >"$state/debootstrap.log" 2>&1 ||
    fail "debootstrap failed: $(tail -n 3 "$state/debootstrap.log")"
  touch "$state/ready"
}

# A free port.
free_port() {
  local port
  for _ in {1..100}; do
    port=$((20000 + RANDOM % 12000))
    if ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      printf '%s' "$port"
      return
    fi
  done
  fail 'no port is free'
}

mysqld() {
  as_root chroot "$system" mysqld --no-defaults --user=root --datadir="$run/data" --pid-file="$run/pid" "$@"
}

start() {
  run=/$(basename "$(as_root mktemp -d "$system/run-XXXXXX")")
  mysqld --initialize-insecure >"$state/mysqld.log" 2>&1 || fail "initializing failed: $(tail -n 5 "$state/mysqld.log")"
  port=$(free_port)
  mysqld --secure-file-priv=NULL --mysqlx=OFF --bind-address=127.0.0.1 --port="$port" --socket="$run/socket" \
    >"$state/mysqld.log" 2>&1 &
  local server=$!
  for _ in {1..600}; do
    if grep -q "ready for connections.*port: $port" "$state/mysqld.log"; then return; fi
    kill -0 "$server" 2>/dev/null || fail "mysqld ended: $(tail -n 5 "$state/mysqld.log")"
    sleep 0.1
  done
  fail "mysqld does not get ready: $(tail -n 5 "$state/mysqld.log")"
}

stop() {
  [[ -n $run ]] || return 0
  if as_root test -s "$system$run/pid"; then as_root kill "$(as_root cat "$system$run/pid")"; fi
  wait
  as_root rm -rf "${system:?}$run"
}

unpack
trap stop EXIT
start
grep -o "Version: '[^']*'" "$state/mysqld.log" | tail -n 1
cd "$root"
EDGELINK_TEST_MYSQL_URL="mysql://root@127.0.0.1:$port" cargo test --workspace --exclude edgelink-filter --test servers "${@:-store::}"
