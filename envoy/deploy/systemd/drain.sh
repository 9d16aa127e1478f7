#!/usr/bin/env bash
# Takes Envoy out of service before it is stopped: health checks fail from now on, visitors are still answered, and their
# connections end with their next answer. It returns when no connection is left and the control plane has counted every click,
# or after EDGELINK_DRAIN_SECONDS (20).
set -uo pipefail

admin=http://127.0.0.1:${EDGELINK_ADMIN_PORT:-9901}
end=$((SECONDS + ${EDGELINK_DRAIN_SECONDS:-20}))
clicks='(wasm|dynamicmodules)custom[.]edgelink[.]clicks[.](edgelink_outcome[.])?(sent|acknowledged|dropped)'
figures="^(http[.]edge[.]downstream_cx_active|$clicks)$"

ask() {
  curl --silent --show-error --fail --max-time 5 "$@"
}

# Whether there is no connection, and no click that is neither counted nor given up.
is_idle() {
  ask --get "$admin/stats" --data-urlencode "filter=$figures" |
    awk '/_active: / { open = $2 } /sent: / { sent = $2 } /(acknowledged|dropped): / { over += $2 } END { exit (open > 0 || sent > over) }'
}

ask -o /dev/null -X POST "$admin/healthcheck/fail"
case $? in
  0) ;;
  7) exit 0 ;; # Nothing listens: it has ended already.
  *) # No curl, or no answer: how many connections are left cannot be asked, so they have all of the time.
    sleep $((end - SECONDS))
    exit 0
    ;;
esac
# Twice in a row: workers say once a second how many clicks they have.
looks=0
while ((SECONDS < end && looks < 2)) && sleep 1; do
  if is_idle; then looks=$((looks + 1)); else looks=0; fi
done
exit 0
