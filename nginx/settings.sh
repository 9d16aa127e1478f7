# shellcheck shell=bash disable=SC2034,SC2154 # here and values: this is sourced
# What nginx/run.sh and nginx/canary.sh share.

# shellcheck source=envoy/templates.sh
source "$here/../envoy/templates.sh"
# shellcheck source=nginx/shared.sh
source "$here/shared.sh"

folder=$state/nginx

# set_canary_share NAME PERCENT: the line of canary.conf; none for 0 per cent.
set_canary_share() {
  [[ $2 =~ ^(100|[0-9]{1,2}([.][0-9]{1,2})?)$ ]] ||
    fail "$1 must be a percentage with two decimals at most, such as 10 or 0.5, not '$2'"
  values[CANARY_SHARE]=''
  ((10#${2/./} == 0)) || values[CANARY_SHARE]="$2% canary;"
}
