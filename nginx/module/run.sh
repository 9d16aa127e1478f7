#!/usr/bin/env bash
# Fills nginx/module/nginx.conf and the settings of the module in, and becomes nginx with the module: an edge without Envoy.
# `nginx/module/run.sh -t` checks the configuration, `-s reload` loads it, `--token` replaces the token; other arguments are passed on to nginx, which takes the
# configuration as it is. The environment variables are those of envoy/run.sh, as far as nginx has what they are about
# (control-plane/book/docs/operate/nginx-module.md).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=envoy/templates.sh
source "$here/../../envoy/templates.sh"
# shellcheck source=nginx/shared.sh
source "$here/../shared.sh"
folder=$state/nginx-module

# Replaces the token of the nginx that runs with this state folder.
if [[ ${1:-} == --token ]]; then
  EDGELINK_FILTER=native exec "$here/../../envoy/run.sh" --settings "$folder"
fi
start() { exec nginx -e stderr -p "$folder" -c "$@"; }
case "$*" in
'' | -[tT]* | '-s reload') ;;
*) start "$folder/nginx.conf" "$@" ;;
esac

# The proxies whose X-Forwarded-For is believed: nginx takes the last address of it.
set_hops() {
  values[REAL_IP]=''
  case $1 in
  0) ;;
  1) values[REAL_IP]=$'  set_real_ip_from 0.0.0.0/0;\n  set_real_ip_from ::/0;\n  real_ip_header X-Forwarded-For;' ;;
  *) fail "EDGELINK_TRUSTED_HOPS must be 0 or 1 with nginx, not '$1': name the proxies by set_real_ip_from instead" ;;
  esac
}

# Pages for visitors, from the control planes: previews (`code+`), `/+/` with its files, and the prefix of links or `/`. What a request
# line names counts, and not what nginx makes of it: no other path of the control planes is reached.
set_pages() {
  values[PAGES_UPSTREAM]=''
  values[NOT_FOUND]='return 404 "Not found.\n";'
  case $1 in
  false) return ;;
  true) ;;
  *) fail "EDGELINK_PUBLIC_PAGES must be true or false, not '$1'" ;;
  esac
  [[ -z ${EDGELINK_CONTROL_PLANE_CA:-} ]] || fail 'EDGELINK_PUBLIC_PAGES must be false with EDGELINK_CONTROL_PLANE_CA: write the proxy_pass yourself'
  local servers prefix=$2 robots=''
  servers=$(server_list EDGELINK_PAGES "${EDGELINK_PAGES:-$control_planes}")
  [[ $prefix != / ]] || robots=$'    "~^/robots[.]txt(?:[?]|$)" 1;\n'
  values[PAGES_UPSTREAM]="  map \$request_uri \$is_page {
    default 0;
    \"~^$prefix(?:[?]|\$)\" 1;
$robots    \"~^$prefix[0-9A-Za-z_-]+(?:[+]|%2[Bb])(?:[?]|\$)\" 1;
    \"~^/[+]/[0-9A-Za-z/_-]+(?:[.]css)?(?:[?]|\$)\" 1;
  }
  upstream pages {
$servers
    keepalive 16;
  }
  proxy_http_version 1.1;
  proxy_set_header Host \$http_host;
  proxy_set_header Connection \"\";
  proxy_set_header X-Forwarded-For \$remote_addr;
  proxy_set_header X-Forwarded-Proto \$scheme;"
  values[NOT_FOUND]='if ($is_page = 0) {
        return 404 "Not found.\n";
      }
      proxy_pass http://pages;'
}

# Root's nginx has workers of another user.
set_user() {
  values[USER]=''
  [[ $(id -u) == 0 ]] || return 0
  [[ $1 =~ ^[0-9A-Za-z._-]+$ ]] || fail "EDGELINK_NGINX_USER must be a user, not '$1'"
  values[USER]="user $1;"
}

module=${EDGELINK_NGINX_MODULE:-$(built_module "${CARGO_TARGET_DIR:-$root/target}")}
[[ -r $module ]] || fail "$module is not built (make nginx-module builds it)"
set_path MODULE EDGELINK_NGINX_MODULE "$(realpath "$module")"
set_path FOLDER EDGELINK_STATE_DIR "$folder"
set_number EDGE_PORT EDGELINK_EDGE_PORT 8080
set_number ADMIN_PORT EDGELINK_ADMIN_PORT 9901
set_number WORKERS EDGELINK_WORKERS "$(getconf _NPROCESSORS_ONLN)" 1
set_number MAX_CONNECTIONS EDGELINK_MAX_CONNECTIONS 16384 64
values[FILES]=$((10#${values[MAX_CONNECTIONS]} + 1024))
set_number DRAIN_SECONDS EDGELINK_DRAIN_SECONDS 20 1
set_string ZONE "${EDGELINK_NGINX_ZONE:-32m}"
set_string EDGE_ADDRESS "${EDGELINK_EDGE_ADDRESS:-127.0.0.1}"
set_hops "${EDGELINK_TRUSTED_HOPS:-0}"
set_user "${EDGELINK_NGINX_USER:-$(id -un)}"
control_planes=${EDGELINK_CONTROL_PLANES:-127.0.0.1:${EDGELINK_API_PORT:-8081}}
set_pages "${EDGELINK_PUBLIC_PAGES:-true}" "${EDGELINK_PREFIX:-/}"
set_boolean TRACE_PARENTS EDGELINK_TRACE_PARENTS false
[[ ${values[TRACE_PARENTS]} == true ]] && values[TRACE_PARENTS]=on || values[TRACE_PARENTS]=off
values[ACCESS_LOG]=off
if [[ -n ${EDGELINK_ACCESS_LOG:-} ]]; then
  set_path ACCESS_LOG EDGELINK_ACCESS_LOG "$EDGELINK_ACCESS_LOG"
  values[ACCESS_LOG]="\"${values[ACCESS_LOG]}\" links"
fi
# Further words of `listen`, and directives of the server and of http.
values[LISTEN_OPTIONS]=${EDGELINK_NGINX_LISTEN:+ $EDGELINK_NGINX_LISTEN}
values[SERVER]=${EDGELINK_NGINX_SERVER:-} values[HTTP]=${EDGELINK_NGINX_HTTP:-}

umask 077 # the settings may hold secrets
mkdir -p "$folder/new"
export EDGELINK_EDGE_PORT=${values[EDGE_PORT]}
if [[ -n ${EDGELINK_NGINX_SETTINGS:-} ]]; then
  set_path SETTINGS EDGELINK_NGINX_SETTINGS "$EDGELINK_NGINX_SETTINGS"
else
  EDGELINK_FILTER=native "$here/../../envoy/run.sh" --settings "$folder"
  set_path SETTINGS EDGELINK_STATE_DIR "$folder/edgelink.json"
fi
fill "$here/nginx.conf" >"$folder/new/nginx.conf"
[[ ${1:-} != -[tT]* ]] || start "$folder/new/nginx.conf" "$@"
# What nginx refuses does not replace the file of the one that runs.
(($# == 0)) || (start "$folder/new/nginx.conf" -t -q)
mv "$folder/new/nginx.conf" "$folder/nginx.conf"
start "$folder/nginx.conf" "$@"
