#!/usr/bin/env bash
# Sends requests that the OpenAPI document allows, and such that it forbids, to a control plane of its own on SQLite, and checks each
# answer against the document (schemathesis). Arguments are passed on: `tests/contract/run.sh --max-examples 1000`.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
binary=${EDGELINK_TEST_BIN:-${CARGO_TARGET_DIR:-$root/target}/debug/edgelink}
schemathesis=$root/.edgelink/schemathesis/bin/schemathesis
state=$(mktemp -d)
server=''

trap '[[ -z $server ]] || kill "$server" 2>/dev/null; rm -rf "$state"' EXIT

export EDGELINK_SERVER_LISTEN=127.0.0.1:0 EDGELINK_STORE_URL=sqlite://$state/edgelink.db
export EDGELINK_LINKS_DOMAINS=go.example:8080,other.example EDGELINK_AUTH_ADMIN_KEY_FILE=$state/admin-key
"$binary" serve 2>"$state/log" &
server=$!
for _ in {1..200}; do
  address=$(sed -n 's/.*listening.*address=\([0-9.:]*\).*/\1/p' "$state/log")
  [[ -z $address ]] || break
  kill -0 "$server" || { cat "$state/log" >&2; exit 1; }
  sleep 0.1
done
[[ -n $address ]] || { cat "$state/log" >&2; exit 1; }

cd "$state" # where it keeps its cache
status=0
PYTHONPATH=$here SCHEMATHESIS_HOOKS=hooks "$schemathesis" --config-file "$here/schemathesis.toml" run "http://$address/openapi.json" \
  --header "X-Api-Key: $(<"$state/admin-key")" --phases examples,coverage,fuzzing --generation-database none "$@" || status=$?
# A request that was answered by 500 says why in the log.
grep ERROR "$state/log" >&2 || true
exit $status
