#!/usr/bin/env bash
# Builds the Debian package of the module that was built for Debian's nginx (`make nginx-deb`), and sees that nginx loads it.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../..
PATH=$PATH:/usr/sbin:/sbin
target=${CARGO_TARGET_DIR:-$root/target}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
package=$folder/package

fail() {
  printf '%s: %s\n' "$0" "$*" >&2
  exit 1
}

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/Cargo.toml")
nginx=$(dpkg-query --show --showformat '${Version}' nginx-dev)
name=ngx_http_edgelink_module-$version-nginx-${nginx%%-*}.so
[[ -r $target/nginx-module/$name ]] || fail "$target/nginx-module/$name is not built (make nginx-module builds it)"
# What packages of nginx with the same ABI provide, whatever security fixes they have.
abi=$(dpkg-query --show --showformat '${Provides}' nginx | grep -o 'nginx-abi-[0-9.-]*') || fail 'nginx is not installed, or names no ABI'

install -D -m 644 "$target/nginx-module/$name" "$package/usr/lib/nginx/modules/$name"
install -d "$package/usr/share/nginx/modules-available" "$package/DEBIAN"
printf 'load_module modules/%s;\n' "$name" >"$package/usr/share/nginx/modules-available/mod-http-edgelink.conf"
install -D -m 644 "$root/LICENSE" "$package/usr/share/doc/libnginx-mod-edgelink/copyright"
size=$(du -sk "$package/usr" | cut -f 1)
cat >"$package/DEBIAN/control" <<CONTROL
Package: libnginx-mod-edgelink
Version: $version+nginx${nginx%%-*}
Architecture: $(dpkg --print-architecture)
Maintainer: edgelink
Section: httpd
Priority: optional
Installed-Size: $size
Depends: $abi, libc6
Description: link shortener that answers inside nginx
 A dynamic module with which nginx is an edge of edgelink: it redirects by links
 that it keeps, and asks control planes or Redis for others.
CONTROL
link=/etc/nginx/modules-enabled/50-mod-http-edgelink.conf
cat >"$package/DEBIAN/postinst" <<POSTINST
#!/bin/sh
set -e
if [ "\$1" = configure ] && [ -d /etc/nginx/modules-enabled ] && [ ! -e $link ]; then
    ln -sf /usr/share/nginx/modules-available/mod-http-edgelink.conf $link
fi
POSTINST
cat >"$package/DEBIAN/prerm" <<PRERM
#!/bin/sh
set -e
if [ "\$1" = remove ]; then
    rm -f $link
fi
PRERM
chmod 755 "$package/DEBIAN/postinst" "$package/DEBIAN/prerm"
mkdir -p "$target/debian"
deb=$target/debian/libnginx-mod-edgelink.deb
dpkg-deb --root-owner-group --build "$package" "$deb" >/dev/null

dpkg-deb --extract "$deb" "$folder/found"
printf '{ "domains": ["go.example"], "controlPlane": { "servers": ["http://127.0.0.1:9"], "token": "x" } }\n' >"$folder/edge.json"
cat >"$folder/nginx.conf" <<CONF
load_module $folder/found/usr/lib/nginx/modules/$name;
pid $folder/pid;
events {}
http {
  access_log off;
  server { listen 127.0.0.1:9; location / { edgelink $folder/edge.json; } }
}
CONF
nginx -t -q -e stderr -p "$folder" -c "$folder/nginx.conf"
dpkg-deb --info "$deb" | grep -E '^ (Package|Version|Architecture|Depends):'
echo "$deb has the module, and nginx loads it"
