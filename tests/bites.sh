#!/usr/bin/env bash
# tests/bites.sh PATCH FAULTS PROMISE: takes something out of the control plane by a patch, and has the nemesis look for it, with those kinds of
# faults. It has to find that PROMISE is broken, such as 'limits kept', within NEMESIS_MINUTES (10). Succeeds if it does.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -eq 3 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
patch=$(realpath "$1") faults=$2 promise=$3
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
native=(--workspace --exclude edgelink-filter)
folder=$target/bites/$(basename "$patch" .patch)
mkdir -p "$folder"

git apply --check "$patch"
git apply "$patch"
trap 'git apply --reverse "$patch"' EXIT
cargo build "${native[@]}" --bin edgelink
cp "$target/debug/edgelink" "$folder/edgelink"
git apply --reverse "$patch"
trap - EXIT

if EDGELINK_TEST_BIN=$folder/edgelink NEMESIS_MINUTES=${NEMESIS_MINUTES:-10} NEMESIS_FAULTS=$faults \
  cargo test "${native[@]}" --test nemesis -- --ignored --exact --nocapture nemesis >"$folder/log" 2>&1; then
  echo "bites: no promise was broken without $(basename "$patch"): see $folder/log" >&2
  exit 1
fi
grep -F "promises are broken:" "$folder/log" | grep -F -- "$promise" || {
  echo "bites: '$promise' was not found broken: see $folder/log" >&2
  exit 1
}
