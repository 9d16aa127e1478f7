# shellcheck shell=bash # this is sourced, behind envoy/templates.sh
# What scripts share that become nginx, or start it.

PATH=$PATH:/usr/sbin:/sbin

# set_path PLACEHOLDER VARIABLE VALUE: nginx has no way to write a dollar sign.
set_path() {
  [[ -n $3 ]] || fail "$2 is missing"
  [[ $3 != *'$'* ]] || fail "$2 cannot have a dollar sign: '$3'"
  set_string "$1" "$3"
}

# server_list VARIABLE host:port,... [OPTION] -> nginx's servers of an upstream
server_list() {
  local endpoints host port list=
  endpoints=$(split_endpoints "$1" "$2")
  while read -r host port; do
    [[ $host != *:* ]] || host=[$host]
    list+="    server $host:$port max_fails=3 fail_timeout=5s${3:+ $3};"$'\n'
  done <<<"$endpoints"
  printf '%s' "$list"
}

# built_module TARGET -> the module that nginx/module/build.sh has built there for the nginx on PATH; a path with a star if there is none
built_module() {
  local version module
  version=$(nginx -v 2>&1) version=${version##*/} version=${version%% *}
  for module in "$1"/nginx-module/ngx_http_edgelink_module-*-nginx-"$version".so; do :; done
  printf '%s\n' "$module"
}
