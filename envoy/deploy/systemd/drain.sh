#!/usr/bin/env bash
# Takes Envoy out of service before it is stopped: health checks fail from now on, visitors are still answered, and their
# connections end with their next answer. It returns when no connection is left, or after EDGELINK_DRAIN_SECONDS (20).
set -uo pipefail

admin=http://127.0.0.1:${EDGELINK_ADMIN_PORT:-9901}
end=$((SECONDS + ${EDGELINK_DRAIN_SECONDS:-20}))

ask() {
  curl --silent --show-error --fail --max-time 5 "$@"
}

connections() {
  ask "$admin/stats?filter=^http.edge.downstream_cx_active$" | sed -n 's/.*: //p'
}

ask -o /dev/null -X POST "$admin/healthcheck/fail" || exit 0 # it has ended already
while ((SECONDS < end)) && sleep 1; do
  [[ $(connections) != 0 ]] || break
done
exit 0
