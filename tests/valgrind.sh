#!/usr/bin/env bash
# Runs the tests of nginx's module with nginx under valgrind (`make valgrind`), and fails if a process has used memory wrongly or
# has lost some of it. Arguments are those of cargo test.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
export PATH=$root/tests/valgrind:$PATH:/usr/sbin EDGELINK_VALGRIND_REPORTS=$reports RUST_TEST_THREADS=2
cargo test "$@" --test e2e nginx_module::
printf 'valgrind: %s processes\n' "$(find "$reports" -type f | wc -l)"
if [[ -n $(find "$reports" -type f -size +0 -print -quit) ]]; then
  find "$reports" -type f -size +0 -exec cat {} +
  exit 1
fi
