#!/usr/bin/env bash
# Sets the share of clients that the canary answers, in the nginx that runs: `nginx/canary.sh 10`, `nginx/canary.sh 0`. The next
# start of nginx/run.sh sets it to EDGELINK_CANARY_PERCENT again.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=nginx/settings.sh
source "$here/settings.sh"

(($# == 1)) || fail 'give it the share in per cent, such as 10 or 0'
set_canary_share "the share" "$1"
[[ -f $folder/canary.conf ]] || fail "no nginx was started with EDGELINK_STATE_DIR=$state"
[[ -z ${values[CANARY_SHARE]} ]] || grep -q 'upstream canary' "$folder/nginx.conf" ||
  fail 'there is no canary: nginx was started without EDGELINK_CANARIES'
fill "$here/canary.conf" >"$folder/canary.conf.new"
mv "$folder/canary.conf.new" "$folder/canary.conf"
exec nginx -e stderr -p "$folder" -c "$folder/nginx.conf" -s reload
