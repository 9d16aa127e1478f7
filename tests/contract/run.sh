#!/usr/bin/env bash
# Sends requests that the OpenAPI document allows, and such that it forbids, to a control plane of its own on SQLite, and checks each
# answer against the document (schemathesis): as an admin, and as an editor. Arguments are passed on:
# `tests/contract/run.sh --max-examples 1000`.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
binary=${EDGELINK_TEST_BIN:-${CARGO_TARGET_DIR:-$root/target}/debug/edgelink}
schemathesis=$root/.edgelink/schemathesis/bin/schemathesis
state=$(mktemp -d)
: >"$state/log"
server=''

trap '[[ -z $server ]] || kill "$server" 2>/dev/null; rm -rf "$state"' EXIT

export EDGELINK_SERVER_LISTEN=127.0.0.1:0 EDGELINK_STORE_URL=sqlite://$state/edgelink.db
export EDGELINK_LINKS_DOMAINS=go.example:8080,other.example EDGELINK_AUTH_ADMIN_KEY_FILE=$state/admin-key
export EDGELINK_WEBHOOKS_ALLOWED_HOSTS=hooks.example
"$binary" serve 2>"$state/log" &
server=$!
for _ in {1..200}; do
  address=$(sed -n 's/.*listening.*address=\([0-9.:]*\).*/\1/p' "$state/log")
  [[ -z $address ]] || break
  kill -0 "$server" || { cat "$state/log" >&2; exit 1; }
  sleep 0.1
done
[[ -n $address ]] || { cat "$state/log" >&2; exit 1; }

# Posts JSON as the admin; prints a field of the answer.
post() {
  python3 - "http://$address/api/v1$1" "$(<"$state/admin-key")" "$2" "$3" <<'PYTHON'
import json, sys, urllib.request
url, key, body, field = sys.argv[1:]
request = urllib.request.Request(url, body.encode(), {"X-Api-Key": key, "Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(request))[field])
PYTHON
}

# Checks the API with a key.
check() {
  printf '\nAs %s\n' "$1"
  PYTHONPATH=$here SCHEMATHESIS_HOOKS=hooks "$schemathesis" --config-file "$here/schemathesis.toml" run "http://$address/openapi.json" \
    --header "X-Api-Key: $2" --phases examples,coverage,fuzzing --generation-database none "${@:3}" || status=$?
}

cd "$state" # where it keeps its cache
status=0
check admin "$(<"$state/admin-key")" "$@"
user=$(post /users '{"name": "of the contract", "role": "editor"}' id)
check editor "$(post /keys "{\"name\": \"of the contract\", \"role\": \"editor\", \"userId\": $user}" key)" "$@"
# A request that was answered by 500 says why in the log.
grep ERROR "$state/log" >&2 || true
exit $status
