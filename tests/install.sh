#!/usr/bin/env bash
# Installs what is missing to run edgelink (`install.sh run`), to run it with MariaDB, Redis and nginx (`install.sh full`), with
# ClickHouse and Prometheus too (`install.sh full clickhouse prometheus`), to test it as well (`install.sh test`), on MySQL
# too (`install.sh mysql`) and a Galera cluster (`install.sh galera`), or with the commands of the runbook (`install.sh restore`), to compare it with others (`install.sh bench`), to check the API against its document
# (`install.sh contract`), to build the native module for any system (`install.sh native`) or the module of nginx (`install.sh nginx-module`), to run that
# under valgrind (`install.sh valgrind`), to check its sources (`install.sh lint`) or to build the book (`install.sh book`): the wasm target, Envoy, cargo-deny, chdb and what tests take
# from npm everywhere, packages on Debian. Elsewhere it says what is missing. What is there already is left alone.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
wasm_target=wasm32-wasip1
export PATH=$PATH:/usr/sbin:/sbin
packages=()

fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

# need COMMAND PACKAGE
need() {
  command -v "$1" >/dev/null || packages+=("$2")
}

need_for_running() {
  need cc gcc
  need curl curl
  EDGELINK_ENVOY_INSTALL=never "$root/envoy/find.sh" >/dev/null 2>&1 || need_venv
}

# Debian splits it off Python.
need_venv() {
  python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
}

# The -core package is MariaDB without a service that would start.
need_for_servers() {
  need mariadbd mariadb-server-core
  need my_print_defaults mariadb-client-core
  need mariadb mariadb-client-core
  need redis-server redis-server
}

# nginx in front, with its certificate and metrics.
need_for_front() {
  need nginx nginx
  need openssl openssl
  need prometheus-nginx-exporter prometheus-nginx-exporter
  need mtail mtail
}

need_prometheus() {
  need prometheus prometheus
}

need_for_testing() {
  need_for_servers
  need_for_front
  need_venv
  need java default-jre-headless
  [[ -e /usr/share/java/zookeeper.jar ]] || packages+=(libzookeeper-java)
  need wrk wrk
  need node nodejs
  need npm npm
  need chromium chromium
  need_prometheus
  need systemd-analyze systemd
  need readelf binutils
  need logrotate logrotate
  need_for_nginx_module
}

# The headers of Debian's nginx, and what reads them.
need_for_nginx_module() {
  local package
  [[ -e /usr/share/nginx/src/conf_flags ]] || packages+=(nginx-dev)
  need nginx nginx
  for package in libclang-dev libpcre2-dev libssl-dev zlib1g-dev; do
    dpkg-query --show "$package" >/dev/null 2>&1 || packages+=("$package")
  done
}

# nginx as others redirect with it.
need_for_comparing() {
  need_for_servers
  need_venv
  need wrk wrk
  need nginx nginx
  [[ -e /usr/lib/nginx/modules/ngx_http_lua_module.so ]] || packages+=(libnginx-mod-http-lua)
  [[ -e /usr/share/lua/5.1/nginx/redis.lua ]] || packages+=(lua-nginx-redis)
  [[ -e /usr/share/lua/5.1/resty/lrucache.lua ]] || packages+=(lua-resty-lrucache)
}

as_root() {
  if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi
}

# Packages with a service start it at once; policy-rc.d keeps Debian from that.
without_services() {
  local policy=/usr/sbin/policy-rc.d mine=''
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod +x "$policy"
    mine=yes
  fi
  local status=0
  "$@" || status=$?
  if [[ -n $mine ]]; then as_root rm -f "$policy"; fi
  return $status
}

install_packages() {
  command -v apt-get >/dev/null || fail "please install what these Debian packages hold: ${packages[*]}"
  [[ $(id -u) == 0 ]] || command -v sudo >/dev/null || fail "please install as root: apt-get install ${packages[*]}"
  printf 'Installing %s\n' "${packages[*]}"
  as_root apt-get update -q
  without_services as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${packages[@]}" ||
    fail "apt-get could not install: ${packages[*]}"
  local package
  for package in redis-server nginx prometheus-nginx-exporter mtail prometheus mariadb-server; do
    if [[ " ${packages[*]} " == *" $package "* ]] && [[ -d /run/systemd/system ]]; then
      as_root systemctl disable --quiet "${package/mariadb-server/mariadb}" # nor at the next boot
    fi
  done
}

# Load at a rate that is kept. It is no Debian package.
install_oha() {
  local pinned=1.16.0 home=$root/.edgelink/oha
  [[ $("$home/bin/oha" --version 2>/dev/null) != "oha $pinned" ]] || return 0
  printf 'Building oha %s, which takes minutes\n' "$pinned"
  cargo install --quiet --locked --root "$home" "oha@$pinned"
}

# A wheel is what its hash in the list says, or it is not installed: further files of a release on PyPI change nothing here.
# install_wheels FOLDER [OPTION...]: what tests/requirements/FOLDER.txt names, into .edgelink/FOLDER.
install_wheels() {
  local home=$root/.edgelink/$1 list=$root/tests/requirements/$1.txt
  shift
  cmp -s "$list" "$home/installed" && return 0
  printf 'Installing %s into %s\n' "$(sed -n 's/^\([A-Za-z0-9_.-]*==[^ ]*\).*/\1/p' "$list" | paste -s -d ' ')" "$home"
  python3 -m venv --clear "$home"
  "$home/bin/python3" -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes "$@" --requirement "$list"
  cp "$list" "$home/installed"
}

# What tests/package.json names, by its lock file.
install_node_modules() {
  local installed=$root/tests/node_modules/.package-lock.json
  [[ ! -e $installed || $installed -ot $root/tests/package-lock.json ]] || return 0
  (cd "$root/tests" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
}

install_wasm_target() {
  [[ ! -d $(rustc --print sysroot)/lib/rustlib/$wasm_target ]] || return 0
  command -v rustup >/dev/null || fail "this Rust has no target $wasm_target, and there is no rustup to add it with"
  rustup target add "$wasm_target"
}

# The source of Rust's standard library, of which the console's module is built, as Debian has it for this Rust, from where apt
# takes its packages (45 MB to fetch). Without it the console does without script, or has a larger module.
install_console_source() {
  local version home
  version=$(rustc --version | cut -d ' ' -f 2)
  home=$root/.edgelink/rust-src/$version
  [[ ! -d $home/library && ! -d $(rustc --print sysroot)/lib/rustlib/src/rust/library ]] || return 0
  install_rust_src "$version" "$home" ||
    printf 'setup: the source of Rust is not here (rustup component add rust-src): see control-plane/console/build.sh\n' >&2
}

# install_rust_src VERSION FOLDER
install_rust_src() {
  local file=rust-src_1.95.0+dfsg1-2~bpo13+1_all.deb mirror package
  local checksum=7b76db5b880a77f9e52975d2baa6209d2f76d2c9c2789515c3088cb960e2c83b
  [[ $1 == 1.95.0 ]] && command -v apt-get dpkg-deb >/dev/null || return 1
  # shellcheck disable=SC2016 # apt's own variable
  mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -m 1 '/debian/$') || return 1
  printf 'Installing the source of the standard library of Rust %s into %s\n' "$1" "$2"
  package=$(mktemp)
  mkdir -p "$2.part"
  if curl -fsS --retry 3 -o "$package" "${mirror}pool/main/r/rustc/$file" &&
    printf '%s  %s\n' "$checksum" "$package" | sha256sum --check --quiet &&
    dpkg-deb --fsys-tarfile "$package" | tar -x --strip-components 4 -C "$2.part" "./usr/src/rustc-$1/library"; then
    mv "$2.part" "$2"
  fi
  rm -rf "$package" "$2.part"
  [[ -d $2/library ]]
}

# The book takes Python alone.
if [[ ${1:-} == book ]]; then
  need_venv
  if ((${#packages[@]})); then install_packages; fi
  install_wheels book
  exit
fi
command -v cargo >/dev/null || fail "there is no Rust: install it with rustup (https://rustup.rs)"
need_for_running
case ${1:-run} in
full)
  need_for_servers
  need_for_front
  [[ " $* " != *' clickhouse '* ]] || need_venv
  [[ " $* " != *' prometheus '* ]] || need_prometheus
  ;;
test) need_for_testing ;;
galera)
  need_for_testing
  # The package of the server has the scripts by which a node copies from another one.
  [[ -e /usr/lib/galera/libgalera_smm.so ]] || packages+=(galera-4)
  need wsrep_sst_rsync mariadb-server
  need rsync rsync
  ;;
restore)
  need_for_testing
  need mariadb-dump mariadb-client
  ;;
mysql)
  need_for_testing
  need debootstrap debootstrap
  ;;
bench) need_for_comparing ;;
valgrind)
  need_for_testing
  need valgrind valgrind
  ;;
nginx-module) need_for_nginx_module ;;
lint | contract | native) need_venv ;;
esac
if ((${#packages[@]})); then install_packages; fi
install_wasm_target
case ${1:-run} in run | full | test) install_console_source ;; esac
"$root/envoy/find.sh" >/dev/null
if [[ ${1:-} == bench ]]; then install_oha; fi
if [[ ${1:-} == native ]]; then install_wheels zig; fi # 100 MB to fetch, 440 MB on disk
if [[ ${1:-} == contract ]]; then install_wheels schemathesis; fi
if [[ ${1:-} == test || ${1:-} == bench || " $* " == *' clickhouse '* ]]; then
  install_wheels chdb --no-deps # ClickHouse: 180 MB to fetch, 560 MB on disk
fi
if [[ ${1:-} == test ]]; then
  install_node_modules
  install_wheels deploy-checks
fi
if [[ ${1:-} == lint ]]; then "$root/tests/deny.sh" install; fi
