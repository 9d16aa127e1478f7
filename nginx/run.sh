#!/usr/bin/env bash
# Fills the templates of nginx in, and becomes nginx. `nginx/run.sh -t` checks the configuration, `nginx/run.sh -s reload` loads it.
# Other arguments are passed on to nginx, which takes the configuration as it is (`nginx/run.sh -s reopen`, `-s quit`). The environment
# variables are described in nginx/README.md.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=nginx/settings.sh
source "$here/settings.sh"

start() { exec nginx -e stderr -p "$folder" -c "$@"; }
case "$*" in
'' | -[tT]* | '-s reload') ;;
*) start "$folder/nginx.conf" "$@" ;;
esac

# Where nginx listens.
set_addresses() {
  local item items=() http='' https=''
  IFS=, read -ra items <<<"$1"
  ((${#items[@]})) || fail 'EDGELINK_FRONT_ADDRESS names no address'
  for item in "${items[@]}"; do
    [[ $item =~ ^([0-9.]+|\*|\[[0-9a-fA-F:.]+\])$ ]] ||
      fail "EDGELINK_FRONT_ADDRESS: '$item' is no IPv4 address, [IPv6 address] or *"
    http+="    listen $item:${values[HTTP_PORT]} default_server;"$'\n'
    https+="    listen $item:${values[HTTPS_PORT]} ssl http2 default_server;"$'\n'
  done
  values[HTTP_LISTEN]=$http
  values[HTTPS_LISTEN]=$https
}

# TLS to the control planes, whose certificate has to be of the authority and for the name; none without an authority.
set_control_plane_tls() {
  local planes=$1 name=${EDGELINK_CONTROL_PLANE_NAME:-}
  values[CONTROL_PLANE_SCHEME]=http values[CONTROL_PLANE_TLS]=''
  if [[ -z ${EDGELINK_CONTROL_PLANE_CA:-} ]]; then
    [[ -z $name ]] || fail 'EDGELINK_CONTROL_PLANE_NAME needs EDGELINK_CONTROL_PLANE_CA: without it there is no TLS'
    return
  fi
  [[ -r $EDGELINK_CONTROL_PLANE_CA ]] || fail "EDGELINK_CONTROL_PLANE_CA names $EDGELINK_CONTROL_PLANE_CA, which cannot be read"
  set_path CONTROL_PLANE_AUTHORITY EDGELINK_CONTROL_PLANE_CA "$EDGELINK_CONTROL_PLANE_CA"
  hosts_of "$name" "$planes"
  if ((${#hosts[@]} > 1)) || is_address "${hosts[0]}"; then
    fail "EDGELINK_CONTROL_PLANE_NAME is missing: nginx knows all control planes by one name, which is no address, not by '${hosts[*]}'"
  fi
  [[ ${hosts[0]} =~ ^[0-9A-Za-z._-]+$ ]] || fail "EDGELINK_CONTROL_PLANE_NAME must be the name of a host, not '${hosts[0]}'"
  values[CONTROL_PLANE_SCHEME]=https
  values[CONTROL_PLANE_TLS]="      proxy_ssl_protocols TLSv1.2 TLSv1.3;
      proxy_ssl_trusted_certificate \"${values[CONTROL_PLANE_AUTHORITY]}\";
      proxy_ssl_verify on;
      proxy_ssl_verify_depth 4;
      proxy_ssl_name ${hosts[0]};
      proxy_ssl_server_name on;"
}

# The upstream of the canary; Envoys of the edge answer while it does not.
set_canary() {
  values[CANARY_UPSTREAM]=''
  if [[ -z $1 ]]; then
    [[ -z ${values[CANARY_SHARE]} ]] || fail 'EDGELINK_CANARY_PERCENT takes EDGELINK_CANARIES, which is missing'
    return
  fi
  local canaries edges
  canaries=$(server_list EDGELINK_CANARIES "$1")
  edges=$(server_list EDGELINK_EDGES "$2" backup)
  values[CANARY_UPSTREAM]="  upstream canary {
    zone canary 128k;
$canaries
$edges
    keepalive 64;
  }"
}

# The proxies whose X-Forwarded-For is believed.
set_proxies() {
  local item items=() real_ip='' networks=''
  IFS=, read -ra items <<<"$1"
  for item in "${items[@]}"; do
    [[ $item =~ ^[0-9a-fA-F.:]+(/[0-9]{1,3})?$ ]] || fail "EDGELINK_PROXIES: '$item' is no address or network"
    real_ip+="  set_real_ip_from $item;"$'\n'
    networks+="    $item 1;"$'\n'
  done
  [[ -z $real_ip ]] || real_ip+=$'  real_ip_header X-Forwarded-For;\n  real_ip_recursive on;'
  values[REAL_IP]=$real_ip
  values[PROXY_NETWORKS]=$networks
}

# set_geo PLACEHOLDER NGINX_VARIABLE VARIABLE: the header that says where a visitor is, which only named proxies may send.
set_geo() {
  local header=${!3:-} variable
  values[$1]=''
  [[ -n $header ]] || return 0
  [[ $header =~ ^[0-9A-Za-z-]+$ ]] || fail "$3 must be the name of a header, not '$header'"
  variable=${header,,}
  values[$1]="\$http_${variable//-/_}"
  values[GEO_HEADERS]+="    proxy_set_header $header \$$2;"$'\n'
}

# Who answers: Envoys, or with EDGELINK_FILTER=nginx the module, in this nginx.
set_edge() {
  values[MODULE]='' values[METRICS]=''
  if [[ $1 != nginx ]]; then
    values[ANSWER]="      set \$answered_by \$pool;
      proxy_pass http://\$pool;
      proxy_read_timeout ${values[ANSWER_SECONDS]}s;"
    return
  fi
  [[ -r ${EDGELINK_NGINX_MODULE:-} ]] || fail "EDGELINK_NGINX_MODULE names no module ('${EDGELINK_NGINX_MODULE:-}'): make nginx-module builds it"
  set_path MODULE EDGELINK_NGINX_MODULE "$(realpath "$EDGELINK_NGINX_MODULE")"
  values[MODULE]="load_module \"${values[MODULE]}\";"
  values[METRICS]=$'    location = /metrics {\n      edgelink_metrics;\n    }'
  # What has no link may be a page of the control planes.
  values[ANSWER]="      set \$answered_by edge;
      edgelink \"${values[FOLDER]}/edgelink.json\";
      try_files /-/none @control_planes;"
  (umask 077 && EDGELINK_TRUSTED_HOPS=0 "$here/../envoy/run.sh" --settings "$folder")
}

# Root's nginx has workers of another user.
set_user() {
  values[USER]=''
  [[ $(id -u) == 0 ]] || return 0
  [[ $1 =~ ^[0-9A-Za-z._-]+$ ]] || fail "EDGELINK_FRONT_USER must be a user, not '$1'"
  values[USER]="user $1;"
}

set_port() {
  set_number "$@" 1
  ((10#${values[$1]} < 65536)) || fail "$2 must be a port, not '${values[$1]}'"
}

set_port HTTPS_PORT EDGELINK_HTTPS_PORT 8443
set_port HTTP_PORT EDGELINK_HTTP_PORT 8000
set_port STATUS_PORT EDGELINK_FRONT_STATUS_PORT 8001
values[HTTPS_SUFFIX]=''
[[ ${values[HTTPS_PORT]} == 443 ]] || values[HTTPS_SUFFIX]=:${values[HTTPS_PORT]}
set_addresses "${EDGELINK_FRONT_ADDRESS:-127.0.0.1}"
set_user "${EDGELINK_FRONT_USER:-www-data}"
set_number WORKERS EDGELINK_FRONT_WORKERS "$(getconf _NPROCESSORS_ONLN)" 1
set_number MAX_CONNECTIONS EDGELINK_FRONT_CONNECTIONS 16384 64
values[FILES]=$((10#${values[MAX_CONNECTIONS]} + 1024)) # the cache and logs have some beside connections
set_number SHUTDOWN_SECONDS EDGELINK_FRONT_SHUTDOWN_SECONDS 30 1
set_number CLIENT_SECONDS EDGELINK_FRONT_CLIENT_SECONDS 10 1
set_number ANSWER_SECONDS EDGELINK_FRONT_ANSWER_SECONDS 15 1
set_number MAX_BODY_BYTES EDGELINK_FRONT_MAX_BODY_BYTES 65536 1024
set_number RATE_PER_SECOND EDGELINK_FRONT_RATE_PER_SECOND 500 1
set_number RATE_BURST EDGELINK_FRONT_RATE_BURST 2000 1
# The last of a burst wait, for a tenth of a second at most.
delay=$((10#${values[RATE_BURST]} - 10#${values[RATE_PER_SECOND]} / 10))
values[RATE_DELAY]=$((delay > 1 ? delay : 1))
set_number CLIENT_CONNECTIONS EDGELINK_FRONT_CLIENT_CONNECTIONS 256 1
set_number HSTS_SECONDS EDGELINK_HSTS_SECONDS 31536000
set_number STALE_SECONDS EDGELINK_STALE_SECONDS 86400 1
set_path FOLDER EDGELINK_STATE_DIR "$folder"
set_path CERTIFICATE EDGELINK_CERTIFICATE "${EDGELINK_CERTIFICATE:-}"
set_path CERTIFICATE_KEY EDGELINK_CERTIFICATE_KEY "${EDGELINK_CERTIFICATE_KEY:-}"
set_path ERROR_LOG EDGELINK_FRONT_ERROR_LOG "${EDGELINK_FRONT_ERROR_LOG:-stderr}"
set_path EVENT_LOG EDGELINK_FRONT_EVENT_LOG "${EDGELINK_FRONT_EVENT_LOG:-$folder/events.log}"
values[INCLUDE]=''
if [[ -n ${EDGELINK_FRONT_INCLUDE:-} ]]; then
  set_path INCLUDE EDGELINK_FRONT_INCLUDE "$EDGELINK_FRONT_INCLUDE"
  values[INCLUDE]="  include \"${values[INCLUDE]}\";"
fi
edges=${EDGELINK_EDGES:-127.0.0.1:${EDGELINK_EDGE_PORT:-8080}}
values[EDGE_SERVERS]=$(server_list EDGELINK_EDGES "$edges")
control_planes=${EDGELINK_CONTROL_PLANES:-127.0.0.1:${EDGELINK_API_PORT:-8081}}
values[CONTROL_PLANE_SERVERS]=$(server_list EDGELINK_CONTROL_PLANES "$control_planes")
set_control_plane_tls "$control_planes"
set_canary_share EDGELINK_CANARY_PERCENT "${EDGELINK_CANARY_PERCENT:-0}"
set_canary "${EDGELINK_CANARIES:-}" "$edges"
set_proxies "${EDGELINK_PROXIES:-}"
values[GEO_HEADERS]=''
set_geo COUNTRY_VALUE country EDGELINK_COUNTRY_HEADER
set_geo CITY_VALUE city EDGELINK_CITY_HEADER

set_edge "${EDGELINK_FILTER:-wasm}"

umask 022 # workers read these files, and there is no secret in them
new=$folder/new
mkdir -p "$new"
for name in nginx.conf canary.conf security.conf forward.conf errors.conf 503.html; do
  fill "$here/$name" >"$new/$name"
done
[[ ${1:-} != -[tT]* ]] || start "$new/nginx.conf" "$@"
# What nginx refuses does not replace the files of the one that runs. At a start it would open its ports to close them again.
(($# == 0)) || (start "$new/nginx.conf" -t -q)
mv "$new"/* "$folder/"
start "$folder/nginx.conf" "$@"
