# shellcheck shell=bash
# How envoy/run.sh and nginx/run.sh fill templates in.

shopt -s inherit_errexit # what fails in $(...) ends the script

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck disable=SC2034 # used by run.sh and fragments.sh
state=${EDGELINK_STATE_DIR:-$root/.edgelink}

declare -A values # by placeholder

fail() {
  printf '%s: %s\n' "$0" "$*" >&2
  exit 1
}

# set_number PLACEHOLDER VARIABLE DEFAULT [LEAST]
set_number() {
  local value=${!2:-$3} least=${4:-0}
  [[ $value =~ ^[0-9]{1,15}$ ]] || fail "$2 must be a whole number, not '$value'"
  ((10#$value >= least)) || fail "$2 must be at least $least, not '$value'"
  values[$1]=$value
}

# set_boolean PLACEHOLDER VARIABLE DEFAULT
set_boolean() {
  local value=${!2:-$3}
  [[ $value == true || $value == false ]] || fail "$2 must be true or false, not '$value'"
  values[$1]=$value
}

# set_string PLACEHOLDER VALUE
set_string() {
  values[$1]=$(escape "$2")
}

# The inside of a JSON string, which a double-quoted YAML string reads alike.
escape() {
  local text=$1
  text=${text//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//$'\n'/\\n}
  [[ $text != *[[:cntrl:]]* ]] || fail "control characters cannot be filled in: ${1@Q}"
  printf '%s' "$text"
}

# split_endpoints VARIABLE host:port,... -> "host port" lines
split_endpoints() {
  local item items=()
  IFS=, read -ra items <<<"$2"
  ((${#items[@]})) || fail "$1 names no host:port"
  for item in "${items[@]}"; do
    [[ $item =~ ^\[?([0-9A-Za-z.:_-]+)\]?:([0-9]+)$ ]] || fail "$1: '$item' is not host:port"
    printf '%s %s\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
  done
}

# hosts_of NAME host:port,...: which names certificates may have, as `hosts` then: that one, or those of the hosts, each once.
hosts_of() {
  local item items=() host
  IFS=, read -ra items <<<"$2"
  hosts=()
  for item in "${items[@]}"; do
    host=${1:-${item%:*}}
    host=${host#[} host=${host%]}
    [[ " ${hosts[*]} " == *" $host "* ]] || hosts+=("$host")
  done
}

is_address() {
  [[ $1 == *:* || $1 =~ ^[0-9.]+$ ]]
}

# The file with every ${NAME} replaced once: what a value brings along is never looked at again.
fill() {
  local rest text='' name
  rest=$(<"$1")
  while [[ $rest =~ \$\{([A-Z_]+)\} ]]; do
    name=${BASH_REMATCH[1]}
    [[ -v values[$name] ]] || fail "$1: there is no value for \${$name}"
    text+=${rest%%"\${$name}"*}${values[$name]}
    rest=${rest#*"\${$name}"}
  done
  printf '%s%s\n' "$text" "$rest"
}
