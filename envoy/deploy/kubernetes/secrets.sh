#!/usr/bin/env bash
# Prints the Secrets of a deployment: `secrets.sh FOLDER | kubectl --namespace edgelink apply -f -`. Keys are made in FOLDER by the
# first call and kept there: keep the folder, for a link lives as long as its code-key. Environment variables are those of
# envoy/run.sh (EDGELINK_DOMAINS, EDGELINK_REDIS, ...), and EDGELINK_STORE_URL, EDGELINK_REDIS_URL
# and EDGELINK_SERVER_TRUSTED_PROXIES (the network of the edges' pods) of the control plane. With EDGELINK_TLS=true and
# EDGELINK_REDIS_TLS=true they fit components/tls and components/redis-tls.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(cd "$here/../../.." && pwd)
keys=${1:?the folder of the keys is missing}
# shellcheck source=envoy/processes.sh
source "$source/envoy/processes.sh"

[[ -n ${EDGELINK_DOMAINS:-} ]] || fail 'EDGELINK_DOMAINS must name the domains of the links'
umask 077
mkdir -p "$keys"
secret "$keys/code-key" 16
secret "$keys/edge-token" 32

# switched_on VARIABLE
switched_on() {
  case ${!1:-false} in
  true) ;;
  false) return 1 ;;
  *) fail "$1 must be true or false, not '${!1}'" ;;
  esac
}

# What pods have mounted: see components/tls and components/redis-tls.
export EDGELINK_RENDER_MOUNTED=/etc/edgelink
if switched_on EDGELINK_TLS; then
  export EDGELINK_CONTROL_PLANES=${EDGELINK_CONTROL_PLANES:-edgelink-control-planes:8083}
  export EDGELINK_PAGES=${EDGELINK_PAGES:-edgelink-control-planes:8084}
  export EDGELINK_CONTROL_PLANE_CA=/etc/edgelink/tls/ca.crt
  export EDGELINK_CLIENT_CERTIFICATE=/etc/edgelink/tls/tls.crt EDGELINK_CLIENT_KEY=/etc/edgelink/tls/tls.key
fi
if switched_on EDGELINK_REDIS_TLS; then export EDGELINK_REDIS_CA=/etc/edgelink/redis/ca.crt; fi

rendered=$(mktemp -d)
trap 'rm -rf "$rendered"' EXIT
env \
  EDGELINK_EDGE_ADDRESS="${EDGELINK_EDGE_ADDRESS:-::}" EDGELINK_EDGE_PORT=8080 \
  EDGELINK_METRICS_ADDRESS="${EDGELINK_EDGE_ADDRESS:-::}" EDGELINK_METRICS_PORT=9902 \
  EDGELINK_CONTROL_PLANES="${EDGELINK_CONTROL_PLANES:-edgelink-control-planes:8081}" \
  EDGELINK_EDGE_TOKEN_FILE="$keys/edge-token" EDGELINK_FEED="${EDGELINK_FEED:-poll}" EDGELINK_CLICKS="${EDGELINK_CLICKS:-true}" \
  EDGELINK_WASM=/usr/lib/edgelink/edgelink_filter.wasm EDGELINK_BRIDGE_WASM=/usr/lib/edgelink/edgelink_resp_bridge.wasm \
  EDGELINK_NATIVE=/usr/lib/edgelink/libedgelink.so \
  "$source/envoy/run.sh" --render "$rendered"
# overlays/production has Envoy merge it in any case.
[[ -e $rendered/redis.yaml ]] || echo '{}' >"$rendered/redis.yaml"

# print_secret NAME SOURCE...
print_secret() {
  kubectl create secret generic "$1" "${@:2}" --dry-run=client --output yaml
  echo ---
}

print_secret edgelink-keys --from-file="$keys/code-key" --from-file="$keys/edge-token"
print_secret edgelink-edge --from-file="$rendered"
# Of the control plane: what differs from deployment to deployment, or is secret.
settings=$rendered/settings
{
  printf 'EDGELINK_LINKS_DOMAINS=%s\n' "$EDGELINK_DOMAINS"
  for name in PREFIX TRAILING_SLASH; do
    of_edge=EDGELINK_$name
    if [[ -n ${!of_edge:-} ]]; then printf 'EDGELINK_LINKS_%s=%s\n' "$name" "${!of_edge}"; fi
  done
  for name in EDGELINK_STORE_URL EDGELINK_REDIS_URL EDGELINK_SERVER_TRUSTED_PROXIES; do
    if [[ -n ${!name:-} ]]; then printf '%s=%s\n' "$name" "${!name}"; fi
  done
} >"$settings"
print_secret edgelink-control-plane --from-env-file="$settings"
