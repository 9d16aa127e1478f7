#!/usr/bin/env bash
# tests/bites.sh PATCH...: takes something out of the control plane by each patch, and has the nemesis look for it with the kinds of faults
# that the head of the patch names after 'Faults:'. Within NEMESIS_MINUTES (10) it has to find that the promise after 'Breaks:' is
# broken. Fails if it does not.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
native=(--workspace --exclude edgelink-filter --features edgelink-control-plane/zookeeper)
applied=
trap '[ -z "$applied" ] || git apply --reverse "$applied"' EXIT

# `head_of PATCH NAME`: what the head of a patch says after `NAME:`.
head_of() {
  local said
  said=$(sed -n "/^diff /q; s/^$2: //p" "$1")
  [ -n "$said" ] || { echo "bites: $1 has no line '$2: ...' before its first diff" >&2; exit 2; }
  echo "$said"
}

build_without() {
  git apply "$1"
  applied=$1
  cargo build "${native[@]}" --bin edgelink
  mkdir -p "$2"
  cp "$target/debug/edgelink" "$2/edgelink"
  git apply --reverse "$1"
  applied=
}

# All programs are built before the first run, so that nothing is built beside one.
for patch; do
  build_without "$patch" "$target/bites/$(basename "$patch" .patch)"
done
for patch; do
  name=$(basename "$patch" .patch)
  faults=$(head_of "$patch" Faults)
  promise=$(head_of "$patch" Breaks)
  folder=$target/bites/$name
  if EDGELINK_TEST_BIN=$folder/edgelink NEMESIS_MINUTES=${NEMESIS_MINUTES:-10} NEMESIS_FAULTS=$faults \
    cargo test "${native[@]}" --test drill -- --ignored --exact --nocapture nemesis::nemesis >"$folder/log" 2>&1; then
    echo "bites: no promise was broken without $name: see $folder/log" >&2
    exit 1
  fi
  grep -F "promises are broken:" "$folder/log" | grep -F -- "$promise" || {
    echo "bites: '$promise' was not found broken without $name: see $folder/log" >&2
    exit 1
  }
done
