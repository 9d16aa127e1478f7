#!/bin/bash
# Builds control plane and edge of an earlier version for `make upgrade`: tests/upgrade.sh [COMMIT]. They go to .edgelink/upgrade,
# and are not built again for the same commit.
set -euo pipefail
cd "$(dirname "$0")/.."

# The last commit before migration 0102. The next version's drill begins where this one has ended.
commit=${1:-07f255b}
folder=$PWD/.edgelink/upgrade
profile=${DRILL_PROFILE:-dev}

fail() {
  echo "upgrade: $*" >&2
  exit 1
}
git rev-parse --git-dir >/dev/null 2>&1 || fail "this is no clone: the earlier version comes from its history"
id=$(git rev-parse --verify --quiet "$commit^{commit}") ||
  fail "commit $commit is not in this clone: 'git fetch --unshallow', or name another one by UPGRADE_FROM=COMMIT"
git merge-base --is-ancestor "$id" HEAD || fail "commit $commit is not before this version (HEAD)"
[ "$(cat "$folder/built" 2>/dev/null)" = "$id $profile" ] && exit 0

mkdir -p "$folder"
rm -rf "$folder/source" "$folder/built"
mkdir "$folder/source"
git archive "$id" | tar -x -C "$folder/source"
cd "$folder/source"
export CARGO_TARGET_DIR=$folder/target
cargo build --profile wasm --target wasm32-wasip1 -p edgelink-filter -p edgelink-resp-bridge
cargo build --profile "$profile" -p edgelink-control-plane --bin edgelink
built=$CARGO_TARGET_DIR/$([ "$profile" = dev ] && echo debug || echo "$profile")
cp "$built/edgelink" "$folder/edgelink"
cp "$CARGO_TARGET_DIR"/wasm32-wasip1/wasm/{edgelink_filter,edgelink_resp_bridge}.wasm "$folder/"
echo "$id $profile" >"$folder/built"
