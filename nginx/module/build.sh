#!/usr/bin/env bash
# Builds the module for one nginx, and prints where it is: `nginx/module/build.sh [PROFILE]` (release; `dev` is for tests, which can
# ask it for panics; `clippy` has it checked instead). An nginx loads what was built for
# its version and its ./configure only. Which one:
#   nothing given           Debian's, by the headers of its package nginx-dev
#   NGINX_BUILD_DIR=FOLDER  the one whose ./configure has written FOLDER (`objs` in its sources)
#   NGINX_STABLE=1          1.28 of nginx.org, by the sources in the crate nginx-src, as ./configure makes it with NGINX_CONFIGURE
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
profile=${1:-release}
folder=${CARGO_TARGET_DIR:-$here/../../target}/nginx-module
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

fail() {
  printf '%s: %s\n' "$0" "$*" >&2
  exit 1
}

# Configured once: what is built of it is built again whenever it changes. In both, nginx itself is not compiled.
debian_nginx() {
  local sources=/usr/share/nginx/src version
  [[ -e $sources/conf_flags ]] || fail 'the package nginx-dev is missing (tests/install.sh nginx-module), or NGINX_BUILD_DIR'
  version=$(dpkg-query --show --showformat '${Version}' nginx-dev)
  build=$folder/debian-$version
  [[ ! -e $build/objs/Makefile ]] || return 0
  rm -rf "$build"
  cp -r "$sources" "$build"
  # shellcheck disable=SC1091 # of the package
  (cd "$build" && source ./conf_flags && ./configure "${NGX_CONF_FLAGS[@]}") >"$folder/configure.log" ||
    fail "nginx cannot be configured (see $folder/configure.log)"
}

# The crate is never built: a package that names it has cargo fetch it.
stable_nginx() {
  local by=$folder/sources sources
  mkdir -p "$by"
  : >"$by/lib.rs"
  printf '[package]\nname = "sources"\nedition = "2024"\n[workspace]\n[lib]\npath = "lib.rs"\n[dependencies]\nnginx-src = "=%s"\n' 1.28.5 >"$by/Cargo.toml"
  sources=$(cargo metadata --quiet --format-version 1 --manifest-path "$by/Cargo.toml" |
    python3 -c 'import json, sys; print(next(it["manifest_path"] for it in json.load(sys.stdin)["packages"] if it["name"] == "nginx-src"))')
  sources=${sources%/*}/nginx
  build=$folder/stable-$(version_of "$sources")
  [[ ! -e $build/objs/Makefile ]] || return 0
  rm -rf "$build"
  cp -r "$sources" "$build"
  local options=(--with-compat --with-threads --with-http_ssl_module --with-http_v2_module --with-http_realip_module
    --with-http_stub_status_module --with-http_auth_request_module)
  [[ -z ${NGINX_CONFIGURE:-} ]] || eval "options=($NGINX_CONFIGURE)" # quoted as `nginx -V` shows them
  (cd "$build" && ./auto/configure "${options[@]}") >"$folder/configure.log" ||
    fail "nginx cannot be configured (see $folder/configure.log)"
}

# version_of SOURCES
version_of() {
  sed -n 's/^#define NGINX_VERSION *"\(.*\)"$/\1/p' "$1/src/core/nginx.h"
}

if [[ -n ${NGINX_BUILD_DIR:-} ]]; then
  [[ -e $NGINX_BUILD_DIR/ngx_auto_config.h ]] || fail "NGINX_BUILD_DIR: $NGINX_BUILD_DIR was not written by nginx's ./configure"
  build=$(cd "$NGINX_BUILD_DIR/.." && pwd)
  objs=$(cd "$NGINX_BUILD_DIR" && pwd)
else
  if [[ ${NGINX_STABLE:-0} == 0 ]]; then debian_nginx; else stable_nginx; fi
  objs=$build/objs
fi

export NGINX_BUILD_DIR=$objs NGINX_SOURCE_DIR=$build CARGO_TARGET_DIR=$folder
if [[ $profile == clippy ]]; then
  cargo clippy --locked --all-features --manifest-path "$here/Cargo.toml" -- -D warnings
  exit
fi
features=()
[[ $profile != dev ]] || features=(--features testing)
cargo build --locked --profile "$profile" "${features[@]}" --manifest-path "$here/Cargo.toml" >&2
[[ $profile != dev ]] || profile=debug
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/Cargo.toml")
# glibc does not load a file again that has the name of a loaded one: a reload takes another version by another name.
name=ngx_http_edgelink_module-$version-nginx-$(version_of "$build").so
cp "$folder/$profile/libngx_http_edgelink_module.so" "$folder/$name.new"
mv "$folder/$name.new" "$folder/$name"
printf '%s\n' "$folder/$name"
