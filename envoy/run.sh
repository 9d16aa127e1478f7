#!/usr/bin/env bash
# Fills envoy/bootstrap.yaml and envoy/plugin.json in, and becomes Envoy, with the filter as a Wasm or a native module. Arguments are passed on to Envoy
# (`envoy/run.sh --mode validate` checks the configuration). `envoy/run.sh --render FOLDER` starts no Envoy and writes the
# filled files into the folder; `envoy/run.sh --settings FOLDER` writes the settings alone, as edgelink.json, for the module of nginx.
# `envoy/run.sh --token` gives the Envoy that runs the token as it is by now. The environment variables
# are described in control-plane/book/docs/reference/envoy-settings.md.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=envoy/templates.sh
source "$here/templates.sh"
# shellcheck source=envoy/fragments.sh
source "$here/fragments.sh"

values[SECTIONS]='' values[REDIS]=''

# a,b -> ["a","b"]
string_list() {
  local item items=() list=
  IFS=, read -ra items <<<"$1"
  for item in "${items[@]}"; do list+=,\"$(escape "$item")\"; done
  printf '[%s]' "${list:1}"
}

# endpoint_list VARIABLE host:port,... -> Envoy's endpoints
endpoint_list() {
  local endpoints host port list=
  endpoints=$(split_endpoints "$1" "$2")
  while read -r host port; do
    list+=", { endpoint: { address: { socket_address: { address: \"$host\", port_value: $port } } } }"
  done <<<"$endpoints"
  printf '[%s]' "${list:2}"
}

# secret_files NAME VARIABLE FILE...: copies of the files where Envoy is rendered for another place, under names of their own; the
# files themselves otherwise, so that Envoy sees when they are replaced. That goes for files of the other place as well: those in the
# folder that EDGELINK_RENDER_MOUNTED names, which need not be here. They are in `found` then.
secret_files() {
  local name=$1 variable=$2 file
  found=()
  for file in "${@:3}"; do
    if [[ $place != "$filled" && -n ${EDGELINK_RENDER_MOUNTED:-} && $file == "$EDGELINK_RENDER_MOUNTED"/* ]]; then
      found+=("$file")
      continue
    fi
    [[ -r $file ]] || fail "$variable names $file, which cannot be read"
    if [[ $place == "$filled" ]]; then
      found+=("$(realpath -s "$file")")
    else
      cp "$file" "$filled/$name-${file##*/}"
      found+=("$place/$name-${file##*/}")
    fi
  done
}

# set_secret NAME CONTENT: writes what Envoy asks for as the secret NAME. Where it finds that is in `secret` then.
set_secret() {
  printf 'resources:\n- "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret\n  name: %s\n  %s\n' "$1" "$2" >"$filled/$1.yaml"
  local path
  path=$(escape "$place/$1.yaml")
  secret="{ name: $1, sds_config: { path_config_source: { path: \"$path\" } } }"
}

# watched FILE -> the file as Envoy reads it, again whenever something in its folder is moved
watched() {
  local file folder
  file=$(escape "$1") folder=$(escape "${1%/*}")
  printf '{ filename: "%s", watched_directory: { path: "%s" } }' "$file" "$folder"
}

# tls_to NAME CA_VARIABLE NAME_VARIABLE host:port,...: TLS towards these, as `tls` then, if there is an authority.
tls_to() {
  local name=$1 ca=$2 own_name=$3 host hosts=() names='' sni='' has_address=false
  tls=''
  if [[ -z ${!ca:-} ]]; then
    [[ -z ${!own_name:-} ]] || fail "$own_name needs $ca: without it there is no TLS"
    return 0
  fi
  secret_files "$name-ca" "$ca" "${!ca}"
  set_secret "$name-ca" "validation_context: { trusted_ca: { filename: \"$(escape "${found[0]}")\" }, watched_directory: { path: \"$(escape "${found[0]%/*}")\" } }"
  tls=${upstream_tls/SECRET/"$secret"}
  hosts_of "${!own_name:-}" "$4"
  for host in "${hosts[@]}"; do
    if is_address "$host"; then
      has_address=true
      names+=", { san_type: IP_ADDRESS, matcher: { exact: \"$host\" } }"
    else
      names+=", { san_type: DNS, matcher: { exact: \"$(escape "$host")\" } }"
    fi
  done
  # TLS names no address. Of several names, each server is asked for by its own.
  if [[ $has_address == false && ${#hosts[@]} == 1 ]]; then
    sni=$'\n        sni: "'"$(escape "${hosts[0]}")\""
  elif [[ $has_address == false ]]; then
    sni=$'\n        auto_host_sni: true'
  fi
  tls=${tls/UpstreamTlsContextSNI/"UpstreamTlsContext$sni"}
  tls=${tls/NAMES/"${names:2}"}
  tls=${tls/CERTIFICATE/"$certificate"}
}

# The certificate that Envoy shows to control planes and Redis; none without one.
set_own_certificate() {
  certificate=''
  [[ -n ${EDGELINK_CLIENT_CERTIFICATE:-} || -n ${EDGELINK_CLIENT_KEY:-} ]] || return 0
  [[ -n ${EDGELINK_CLIENT_CERTIFICATE:-} ]] || fail 'EDGELINK_CLIENT_CERTIFICATE is missing beside EDGELINK_CLIENT_KEY'
  [[ -n ${EDGELINK_CLIENT_KEY:-} ]] || fail 'EDGELINK_CLIENT_KEY is missing beside EDGELINK_CLIENT_CERTIFICATE'
  [[ -n ${EDGELINK_CONTROL_PLANE_CA:-} || -n ${EDGELINK_REDIS:+${EDGELINK_REDIS_CA:-}} ]] ||
    fail 'EDGELINK_CLIENT_CERTIFICATE needs EDGELINK_CONTROL_PLANE_CA, or EDGELINK_REDIS_CA: without them there is no TLS'
  secret_files client EDGELINK_CLIENT_CERTIFICATE "$EDGELINK_CLIENT_CERTIFICATE"
  local shown=${found[0]}
  secret_files client EDGELINK_CLIENT_KEY "$EDGELINK_CLIENT_KEY"
  set_secret client "tls_certificate: { certificate_chain: { filename: \"$(escape "$shown")\" }, private_key: { filename: \"$(escape "${found[0]}")\" }, watched_directory: { path: \"$(escape "${shown%/*}")\" } }"
  certificate=${own_certificate/SECRET/"$secret"}
}

# The token of the edge API, as `token` then: of several the first, for the others are there for rotation.
read_token() {
  local file=${EDGELINK_EDGE_TOKEN_FILE:-$state/edge-token}
  token=${EDGELINK_EDGE_TOKEN:-}
  if [[ -z $token ]]; then
    [[ -r $file ]] || fail "no edge token: set EDGELINK_EDGE_TOKEN, or write one to $file"
    token=$(sed -n '/[^[:space:]]/{p;q}' "$file")
    [[ -n $token ]] || fail "no edge token: $file is empty"
  fi
  token=${token%%,*}
  token=${token//[[:space:]]/}
}

# In a file of Envoy's own, which it reads again when it is moved there: another one may have several tokens, or a line end, which
# older Envoys would send.
write_token() {
  printf '%s' "$token" >"$filled/edge-token.new"
  mv "$filled/edge-token.new" "$filled/edge-token"
}

# How control planes are reached, by Envoy's cluster or by the native module itself, and where the token is from: a file that is read
# again, or the configuration of the filter.
set_control_plane() {
  local fields=()
  read_token
  set_string EDGE_TOKEN "$token"
  values[TOKEN_INJECTOR]=''
  "set_control_plane_of_$filter"
  case ${EDGELINK_TOKEN_IN_PLUGIN:-false} in
  true) fields+=("\"token\": \"${values[EDGE_TOKEN]}\"") ;;
  false)
    write_token
    "set_token_of_$filter"
    ;;
  *) fail "EDGELINK_TOKEN_IN_PLUGIN must be true or false, not '$EDGELINK_TOKEN_IN_PLUGIN'" ;;
  esac
  local text
  printf -v text ',\n    %s' "${fields[@]}"
  values[CONTROL_PLANE]=${text:6}
}

set_control_plane_of_wasm() {
  values[CONTROL_PLANE_ENDPOINTS]=$(endpoint_list EDGELINK_CONTROL_PLANES "$control_planes")
  fields+=('"cluster": "control_plane"')
}

set_token_of_wasm() {
  set_secret edge-token "generic_secret: { secret: $(watched "$place/edge-token") }"
  values[TOKEN_INJECTOR]=${token_injector/SECRET/"$secret"}
}

set_control_plane_of_native() {
  local scheme=http servers
  [[ -z ${EDGELINK_CONTROL_PLANE_CA:-} ]] || scheme=https
  servers=$scheme://${control_planes//,/,$scheme:\/\/}
  fields+=("\"servers\": $(string_list "$servers")")
  [[ $scheme == https ]] || return 0
  native_file control-plane caFile EDGELINK_CONTROL_PLANE_CA
  native_file control-plane certificateFile EDGELINK_CLIENT_CERTIFICATE
  native_file control-plane keyFile EDGELINK_CLIENT_KEY
  [[ -z ${EDGELINK_CONTROL_PLANE_NAME:-} ]] || fields+=("\"serverName\": \"$(escape "$EDGELINK_CONTROL_PLANE_NAME")\"")
}

set_token_of_native() {
  fields+=("\"tokenFile\": \"$(escape "$place/edge-token")\"")
}

# Replaces the token of the Envoy that runs with this state folder.
replace_token() {
  filled=$state/envoy
  [[ ${EDGELINK_TOKEN_IN_PLUGIN:-false} == false ]] || fail '--token is not for EDGELINK_TOKEN_IN_PLUGIN: start Envoy again'
  [[ -e $filled/edge-token ]] || fail "no Envoy has read a token from $filled"
  read_token
  write_token
}

# What the filter is, and by what access logs and spans know what it says of a request.
set_filter() {
  values[RUNTIME_GUARDS]=''
  case $1 in
  wasm)
    set_string WASM "${EDGELINK_WASM:-$root/target/wasm32-wasip1/wasm/edgelink_filter.wasm}"
    local said=('%FILTER_STATE(wasm.edgelink.' ':PLAIN)%')
    ;;
  native)
    set_string NATIVE "${EDGELINK_NATIVE:-$root/target/release/libedgelink.so}"
    local said=('%DYNAMIC_METADATA(edgelink:' ')%')
    values[RUNTIME_GUARDS]=$native_guards
    ;;
  *) fail "EDGELINK_FILTER must be wasm or native, not '$1'" ;;
  esac
  values[OUTCOME]=${said[0]}outcome${said[1]} values[TIER]=${said[0]}tier${said[1]} values[KEY]=${said[0]}key${said[1]}
}

# How Redis is reached, and whose answers the filter believes: through Envoy, or by the native module itself.
set_redis() {
  local fields=() user=${EDGELINK_REDIS_USER:-}
  "set_redis_of_$filter" "$1"
  [[ -z ${EDGELINK_REDIS_PASSWORD:-} ]] || fields+=("\"password\": \"$(escape "$EDGELINK_REDIS_PASSWORD")\"")
  [[ -z $user ]] || fields+=("\"user\": \"$(escape "$user")\"")
  local IFS=,
  values[REDIS]=$',\n  "redis": { '"${fields[*]} }" # by itself for templates that leave out other sections
  values[SECTIONS]+=${values[REDIS]}
}

set_redis_of_wasm() {
  local mode=$1
  [[ -z ${EDGELINK_REDIS_SENTINEL:-} ]] || fail 'EDGELINK_REDIS_SENTINEL needs EDGELINK_FILTER=native'
  case $mode in
  direct | pooled) values[REDIS_DISCOVERY]='type: STRICT_DNS' ;;
  cluster)
    mode=pooled
    values[REDIS_DISCOVERY]="$redis_cluster"
    ;;
  *) fail "EDGELINK_REDIS must be direct, pooled, cluster or empty, not '$mode'" ;;
  esac
  tls_to redis EDGELINK_REDIS_CA EDGELINK_REDIS_NAME "$redis_servers"
  values[REDIS_TLS]=$tls
  set_redis_password "$mode"
  values[REDIS_ENDPOINTS]=$(endpoint_list EDGELINK_REDIS_SERVERS "$redis_servers")
  set_string BRIDGE_WASM "${EDGELINK_BRIDGE_WASM:-$root/target/wasm32-wasip1/wasm/edgelink_resp_bridge.wasm}"
  fields+=("\"mode\": \"$mode\"")
  [[ $mode == direct ]] || user='' # redis_proxy logs in
}

set_redis_of_native() {
  local -A modes=([direct]=direct [cluster]=pooled)
  [[ -v modes[$1] ]] || fail "EDGELINK_REDIS must be direct, cluster or empty with EDGELINK_FILTER=native, not '$1'"
  split_endpoints EDGELINK_REDIS_SERVERS "$redis_servers" >/dev/null
  fields+=("\"mode\": \"${modes[$1]}\"" "\"servers\": $(string_list "$redis_servers")")
  [[ -z ${EDGELINK_REDIS_SENTINEL:-} ]] || fields+=("\"sentinel\": \"$(escape "$EDGELINK_REDIS_SENTINEL")\"")
  native_file redis passwordFile EDGELINK_REDIS_PASSWORD_FILE
  if [[ -z ${EDGELINK_REDIS_CA:-} ]]; then
    [[ -z ${EDGELINK_REDIS_NAME:-} ]] || fail 'EDGELINK_REDIS_NAME needs EDGELINK_REDIS_CA: without it there is no TLS'
    return 0
  fi
  native_file redis caFile EDGELINK_REDIS_CA
  native_file redis certificateFile EDGELINK_CLIENT_CERTIFICATE
  native_file redis keyFile EDGELINK_CLIENT_KEY
  [[ -z ${EDGELINK_REDIS_NAME:-} ]] || fields+=("\"serverName\": \"$(escape "$EDGELINK_REDIS_NAME")\"")
}

# native_file NAME FIELD VARIABLE: has the native module read that file, if the variable names one.
native_file() {
  [[ -n ${!3:-} ]] || return 0
  secret_files "$1-$2" "$3" "${!3}"
  fields+=("\"$2\": \"$(escape "${found[0]}")\"")
}

# The password that redis_proxy logs in with, in a file.
set_redis_password() {
  values[REDIS_AUTH]=''
  [[ -n ${EDGELINK_REDIS_PASSWORD_FILE:-} ]] || return 0
  [[ $1 == pooled ]] || fail 'EDGELINK_REDIS_PASSWORD_FILE is for EDGELINK_REDIS=pooled and cluster'
  secret_files redis-password EDGELINK_REDIS_PASSWORD_FILE "$EDGELINK_REDIS_PASSWORD_FILE"
  [[ -n $(tail -c 1 "$EDGELINK_REDIS_PASSWORD_FILE") ]] || fail 'EDGELINK_REDIS_PASSWORD_FILE must not be empty, nor end with a line end: Envoy would send it'
  values[REDIS_AUTH]=${redis_auth/USER/"$(escape "${EDGELINK_REDIS_USER:-}")"}
  values[REDIS_AUTH]=${values[REDIS_AUTH]/FILE/"$(escape "${found[0]}")"}
}

# How many requests of an address are answered; none of them are limited without a rate.
set_rate_limit() {
  local per_second=$1 burst=$2
  [[ $per_second =~ ^(0|[1-9][0-9]{0,5})$ ]] || fail "EDGELINK_RATE_PER_SECOND must be a whole number up to 999999, not '$per_second'"
  [[ $burst =~ ^[1-9][0-9]{0,8}$ ]] || fail "EDGELINK_RATE_BURST must be a whole number from 1 to 999999999, not '$burst'"
  ((per_second == 0)) || values[SECTIONS]+=$',\n  "limit": { "perSecond": '"$per_second, \"burst\": $burst }"
}

# both_families ADDRESS: Envoy takes IPv4 at :: only if it is told so, and refuses to be told so of other addresses.
both_families() {
  [[ $1 != :: ]] || printf ', ipv4_compat: true'
}

# Whether there is a listener for metrics and readiness, on which port.
set_metrics() {
  local port=$1 listener
  values[METRICS_LISTENER]='' values[METRICS_CLUSTER]=''
  [[ -n $port ]] || return 0
  [[ $port =~ ^[0-9]{1,5}$ ]] || fail "EDGELINK_METRICS_PORT must be a port, not '$port'"
  listener=${metrics_listener/ADDRESS/"$(escape "$2")"}
  values[METRICS_LISTENER]=${listener/PORTBOTH/"$port$(both_families "$2")"}
  values[METRICS_CLUSTER]=${metrics_cluster/PORT/"${values[ADMIN_PORT]}"}
}

# Whether a request may say that it is part of a trace.
set_trace_parents() {
  case $1 in
  true) values[TRACE_PARENTS]='' ;;
  false) values[TRACE_PARENTS]=$no_trace_parents ;;
  *) fail "EDGELINK_TRACE_PARENTS must be true or false, not '$1'" ;;
  esac
}

# Whether requests are traced, what share of them, and where their spans go.
set_tracing() {
  local endpoint=$1 percent=$2 text
  values[TRACED]=false values[TRACING]='' values[OTLP_CLUSTER]=''
  [[ -n $endpoint ]] || return 0
  [[ $percent =~ ^(100|[0-9]{1,2})$ ]] || fail "EDGELINK_TRACE_PERCENT must be a whole number from 0 to 100, not '$percent'"
  values[TRACED]=true
  text=${tracing/PERCENT/"$percent"}
  text=${text/OUTCOME/"${values[OUTCOME]}"}
  text=${text/TIER/"${values[TIER]}"}
  text=${text/KEY/"${values[KEY]}"}
  values[OTLP_CLUSTER]=${otlp_cluster/ENDPOINTS/"$(endpoint_list EDGELINK_OTLP "$endpoint")"}
  values[TRACING]=${text/ENDPOINT/"$endpoint"}
}

# Where links stand among the paths of others, and what becomes of codes that none has.
set_paths() {
  [[ $1 =~ ^/([0-9A-Za-z_-]+/)*$ ]] || fail "EDGELINK_PREFIX must be / or like /s/, not '$1'"
  values[PREFIX]=$1
  case $2 in
  notFound | pass) values[UNKNOWN_CODES]=$2 ;;
  *) fail "EDGELINK_UNKNOWN_CODES must be notFound or pass, not '$2'" ;;
  esac
}

# Whether pages for visitors come from the control plane, with links behind that prefix.
set_public_pages() {
  case $1 in
  false) values[PUBLIC_PAGES]='' values[PAGES_CLUSTER]='' ;;
  true)
    values[PUBLIC_PAGES]=${public_pages/PREFIX/"$2"}${root_page/PREFIX/"$2"}
    [[ $2 != / ]] || values[PUBLIC_PAGES]+=$robots_page
    values[PAGES_CLUSTER]=${pages_cluster/ENDPOINTS/"$(endpoint_list EDGELINK_PAGES "${EDGELINK_PAGES:-$control_planes}")"}
    values[PAGES_CLUSTER]=${values[PAGES_CLUSTER]/CARE/"$care"}
    values[PAGES_CLUSTER]=${values[PAGES_CLUSTER]/PAGES_TLS/"${values[CONTROL_PLANE_TLS]}"}
    ;;
  *) fail "EDGELINK_PUBLIC_PAGES must be true or false, not '$1'" ;;
  esac
}

# Whether the feed of changes is followed, and with it what is believed without asking.
set_feed() {
  case $1 in
  none) return ;;
  poll) values[SECTIONS]+=$',\n  "poll": {}' ;;
  *) fail "EDGELINK_FEED must be none or poll, not '$1'" ;;
  esac
  values[SECTIONS]+=$',\n  "snapshot": {},\n  "admission": {}'
}

# Whether domains that the API has made are served as well.
set_api_domains() {
  case $1 in
  false) return ;;
  true) values[SECTIONS]+=$',\n  "apiDomains": true' ;;
  *) fail "EDGELINK_API_DOMAINS must be true or false, not '$1'" ;;
  esac
}

# Whether redirects are counted by link and reported to the control plane, with which attributes, and orphan visits too.
set_clicks() {
  case $1 in
  false) return ;;
  true) ;;
  *) fail "EDGELINK_CLICKS must be true or false, not '$1'" ;;
  esac
  case $3 in
  false | true) ;;
  *) fail "EDGELINK_CLICKS_ORPHANS must be true or false, not '$3'" ;;
  esac
  values[SECTIONS]+=$',\n  "clicks": { "attributes": '"$(string_list "$2"), \"orphans\": $3 }"
}

# The headers that say where a visitor is.
set_geo() {
  local fields=()
  [[ -z $1 ]] || fields+=("\"countryHeader\": \"$(escape "$1")\"")
  [[ -z $2 ]] || fields+=("\"cityHeader\": \"$(escape "$2")\"")
  local IFS=,
  ((${#fields[@]} == 0)) || values[SECTIONS]+=$',\n  "geo": { '"${fields[*]} }"
}

filter=${EDGELINK_FILTER:-wasm}
[[ ${1:-} != --settings ]] || filter=native # they are alike
redis_servers=${EDGELINK_REDIS_SERVERS:-127.0.0.1:6380}
umask 077 # the filled files may hold secrets
if [[ ${1:-} == --token ]]; then
  replace_token
  exit
fi

set_number EDGE_PORT EDGELINK_EDGE_PORT 8080
set_number ADMIN_PORT EDGELINK_ADMIN_PORT 9901
set_number HEAP_BYTES EDGELINK_HEAP_BYTES 1073741824
set_number MAX_CONNECTIONS EDGELINK_MAX_CONNECTIONS 50000
set_number TRUSTED_HOPS EDGELINK_TRUSTED_HOPS 0
set_number CALLOUT_TIMEOUT_MS EDGELINK_CALLOUT_TIMEOUT_MS 800
set_number LRU_BYTES EDGELINK_LRU_BYTES 67108864
set_number DRAIN_SECONDS EDGELINK_DRAIN_SECONDS 20
set_number FRESH_SECONDS EDGELINK_FRESH_SECONDS 5
set_number STALE_SECONDS EDGELINK_STALE_SECONDS 86400
set_filter "$filter"
set_rate_limit "${EDGELINK_RATE_PER_SECOND:-500}" "${EDGELINK_RATE_BURST:-2000}"
set_trace_parents "${EDGELINK_TRACE_PARENTS:-false}"
set_tracing "${EDGELINK_OTLP:-}" "${EDGELINK_TRACE_PERCENT:-1}"
values[DESCRIBE]=$(string_list "${EDGELINK_DESCRIBE:-}")
set_paths "${EDGELINK_PREFIX:-/}" "${EDGELINK_UNKNOWN_CODES:-notFound}"
set_boolean TRAILING_SLASH EDGELINK_TRAILING_SLASH false
set_metrics "${EDGELINK_METRICS_PORT:-}" "${EDGELINK_METRICS_ADDRESS:-127.0.0.1}"
set_boolean TIER_HEADER EDGELINK_TIER_HEADER false
set_string EDGE_ADDRESS "${EDGELINK_EDGE_ADDRESS:-127.0.0.1}"
values[EDGE_BOTH_FAMILIES]=$(both_families "${EDGELINK_EDGE_ADDRESS:-}")
set_string ACCESS_LOG "${EDGELINK_ACCESS_LOG:-/dev/stdout}"
values[DOMAINS]=$(string_list "${EDGELINK_DOMAINS:-127.0.0.1:${values[EDGE_PORT]}}")
control_planes=${EDGELINK_CONTROL_PLANES:-127.0.0.1:${EDGELINK_API_PORT:-8081}}
split_endpoints EDGELINK_CONTROL_PLANES "$control_planes" >/dev/null

filled=$state/envoy
if [[ ${1:-} == --render || ${1:-} == --settings ]]; then filled=${2:?the folder to write into is missing}; fi
mkdir -p "$filled"
filled=$(realpath "$filled")
place=$filled # where Envoy finds them
if [[ ${1:-} == --render ]]; then place=${EDGELINK_RENDER_PLACE:-/etc/envoy}; fi
set_own_certificate
tls_to control-plane EDGELINK_CONTROL_PLANE_CA EDGELINK_CONTROL_PLANE_NAME "$control_planes${EDGELINK_PAGES:+,$EDGELINK_PAGES}"
values[CONTROL_PLANE_TLS]=$tls
set_public_pages "${EDGELINK_PUBLIC_PAGES:-true}" "${values[PREFIX]}"
set_control_plane
values[CARE]=$care values[CONTROL_PLANE_CLUSTER]=''
[[ $filter == native ]] || values[CONTROL_PLANE_CLUSTER]=$'\n'$(fill "$here/control-plane.yaml")
unset EDGELINK_EDGE_TOKEN EDGELINK_AUTH_EDGE_TOKENS # `up.sh` exports the latter for the control plane

[[ -z ${EDGELINK_REDIS:-} ]] || set_redis "$EDGELINK_REDIS"
set_feed "${EDGELINK_FEED:-none}"
set_api_domains "${EDGELINK_API_DOMAINS:-$([[ ${EDGELINK_FEED:-none} == none ]] && echo false || echo true)}"
set_clicks "${EDGELINK_CLICKS:-false}" "${EDGELINK_CLICKS_ATTRIBUTES:-}" "${EDGELINK_CLICKS_ORPHANS:-false}"
set_geo "${EDGELINK_COUNTRY_HEADER:-}" "${EDGELINK_CITY_HEADER:-}"
unset EDGELINK_REDIS_PASSWORD

plugin=$(fill "${EDGELINK_ENVOY_PLUGIN:-$here/plugin.json}")
if [[ ${1:-} == --settings ]]; then
  printf '%s\n' "$plugin" >"$filled/edgelink.json"
  exit 0
fi
set_string PLUGIN_CONFIGURATION "$plugin"
values[FILTER]=$'\n'$(fill "$here/$filter.yaml")
fill "${EDGELINK_ENVOY_BOOTSTRAP:-$here/bootstrap.yaml}" >"$filled/bootstrap.yaml"
merged=() # Envoy appends its lists to those of the bootstrap
if [[ -n ${EDGELINK_REDIS:-} && $filter == wasm ]]; then
  merged=(--config-yaml "$(fill "$here/redis.yaml")")
fi
if [[ ${1:-} == --render ]]; then
  rm -f "$filled/redis.yaml"
  [[ -z ${merged[*]} ]] || printf '%s\n' "${merged[1]}" >"$filled/redis.yaml"
  exit 0
fi

envoy=$("$here/find.sh")
exec "$envoy" --config-path "$filled/bootstrap.yaml" "${merged[@]}" \
  --concurrency "${EDGELINK_WORKERS:-$(getconf _NPROCESSORS_ONLN)}" \
  --use-dynamic-base-id --base-id-path "$state/envoy/base-id" \
  --drain-time-s "${values[DRAIN_SECONDS]}" --parent-shutdown-time-s "$((values[DRAIN_SECONDS] + 10))" \
  --log-level "${EDGELINK_ENVOY_LOG:-warning}" --component-log-level wasm:info,dynamic_modules:info "$@"
