#!/usr/bin/env bash
# Puts what was built (`make release`, and `make native-portable` for the native module) and these units into a system, or into a folder
# that becomes one: `install.sh [FOLDER]`.
# It starts nothing, and replaces no setting that is there. Parts can be left out: without /etc/edgelink/edge.env no edge starts.
set -euo pipefail

root=${1:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(cd "$here/../../.." && pwd)
target=${CARGO_TARGET_DIR:-$source/target}
modules=$target/wasm32-wasip1/wasm
native=${EDGELINK_NATIVE:-$target/portable/libedgelink.so}

install -D -m 755 "${EDGELINK_BIN:-$target/release/edgelink}" "$root/usr/bin/edgelink"
install -D -m 755 "$here/ctl.sh" "$root/usr/bin/edgelink-ctl"
install -D -m 644 -t "$root/usr/lib/edgelink" "$modules"/edgelink_{filter,resp_bridge}.wasm
if [[ -n ${EDGELINK_NATIVE:-} || -e $native ]]; then
  install -D -m 644 "$native" "$root/usr/lib/edgelink/libedgelink.so"
else
  echo "$0: without the native module: \`make native-portable\` has not built it" >&2
fi
install -D -m 755 -t "$root/usr/lib/edgelink/envoy" "$source"/envoy/{run,find}.sh "$here/drain.sh"
install -D -m 644 -t "$root/usr/lib/edgelink/envoy" "$source"/envoy/{bootstrap,control-plane,wasm,native,redis}.yaml "$source"/envoy/{plugin.json,fragments.sh,templates.sh,requirements.txt}
install -D -m 644 -t "$root/usr/lib/systemd/system" "$here"/edgelink{,-edge}.service
for page in edgelink.1 edgelink.toml.5; do
  install -D -m 644 "$source/control-plane/man/$page" "$root/usr/share/man/man${page##*.}/$page"
done
install -D -m 644 "$here/sysusers.conf" "$root/usr/lib/sysusers.d/edgelink.conf"
install -D -m 644 "$here/tmpfiles.conf" "$root/usr/lib/tmpfiles.d/edgelink.conf"
install -D -m 644 "$here/logrotate.conf" "$root/etc/logrotate.d/edgelink"
if [[ ! -e $root/etc/edgelink/edgelink.toml ]]; then
  install -D -m 640 "$source/control-plane/edgelink.example.toml" "$root/etc/edgelink/edgelink.toml"
fi
