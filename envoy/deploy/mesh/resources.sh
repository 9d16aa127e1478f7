#!/usr/bin/env bash
# Prints resources for a mesh or a gateway that is there: `resources.sh istio|envoy-gateway IMAGE | kubectl apply -f -`. Environment
# variables are those of envoy/run.sh (EDGELINK_DOMAINS, EDGELINK_EDGE_TOKEN_FILE, EDGELINK_REDIS, ...). IMAGE is what resources.py says.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
rendered=$(mktemp -d)
trap 'rm -rf "$rendered"' EXIT
env \
  EDGELINK_CONTROL_PLANES="${EDGELINK_CONTROL_PLANES:-edgelink-control-planes.edgelink.svc.cluster.local:8081}" \
  EDGELINK_FEED="${EDGELINK_FEED:-poll}" EDGELINK_CLICKS="${EDGELINK_CLICKS:-true}" \
  EDGELINK_TOKEN_IN_PLUGIN=true \
  EDGELINK_BRIDGE_WASM=/usr/lib/edgelink/edgelink_resp_bridge.wasm EDGELINK_NATIVE=/usr/lib/edgelink/libedgelink.so \
  "$here/../../run.sh" --render "$rendered"
"${PYTHON:-python3}" -B "$here/resources.py" "${1:-}" "$rendered" "${2:?the OCI image of the filter is missing}"
