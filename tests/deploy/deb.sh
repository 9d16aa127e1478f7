#!/usr/bin/env bash
# Builds the Debian package of what was built (`make release native-portable`), and sees that it has the very files that install.sh puts
# into a system, and that Envoy takes either filter of it.
set -euo pipefail
cd "$(dirname "$0")/../.."

target=${CARGO_TARGET_DIR:-$PWD/target}
tools=$PWD/.edgelink/cargo-deb
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

[ -x "$tools/bin/cargo-deb" ] || cargo install cargo-deb --version 3.8.0 --locked --root "$tools"
PATH=$tools/bin:$PATH cargo deb --no-build --no-strip -p edgelink-control-plane --output "$folder/edgelink.deb"

envoy/deploy/systemd/install.sh "$folder/installed"
list() { sort | sed 's,^\./,,'; }
(cd "$folder/installed" && find . -type f ! -path './usr/share/man/*' -printf '%m %p\n' | sed 's, \./, ,') | list >"$folder/expected"
dpkg-deb --extract "$folder/edgelink.deb" "$folder/package"
# Packages have manual pages compressed.
(cd "$folder/package/usr/share/man" && gunzip --test man1/edgelink.1.gz man5/edgelink.toml.5.gz)
(cd "$folder/package" && find . -type f ! -path './usr/share/doc/*' ! -path './usr/share/man/*' -printf '%m %p\n' | sed 's, \./, ,') | list >"$folder/found"
diff "$folder/expected" "$folder/found"
while read -r _ file; do
  cmp "$folder/installed/$file" "$folder/package/$file"
done <"$folder/expected"
dpkg-deb --info "$folder/edgelink.deb" | grep -E '^ (Package|Version|Architecture|Depends):'
modules=$folder/package/usr/lib/edgelink
envoy=$(EDGELINK_FILTER=native envoy/find.sh)
for filter in wasm native; do
  EDGELINK_FILTER=$filter EDGELINK_WASM=$modules/edgelink_filter.wasm EDGELINK_NATIVE=$modules/libedgelink.so \
    EDGELINK_ENVOY=$envoy EDGELINK_STATE_DIR=$folder/state EDGELINK_EDGE_TOKEN=token "$modules/envoy/run.sh" --mode validate
done
for script in postinst prerm; do
  dpkg-deb --ctrl-tarfile "$folder/edgelink.deb" | tar -xO "./$script" | sh -n
done
install -D -m 644 "$folder/edgelink.deb" "$target/debian/edgelink.deb"
echo "$target/debian/edgelink.deb has the $(wc -l <"$folder/expected") files that install.sh installs"
