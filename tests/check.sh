#!/usr/bin/env bash
# tests/check.sh [COMMIT]: checks formatting and the figures of the house, and lints and unit tests of the crates with files that have
# changed since COMMIT (HEAD), untracked ones included. `make check` runs it; `make lint test` checks everything.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:-HEAD}

# The packages of the workspace, as lines of `folder package`, the deepest folders first.
packages() {
  local manifest name
  git ls-files '*Cargo.toml' | while read -r manifest; do
    name=$(sed -n '/^\[package\]/,/^\[/s/^name = "\(.*\)"/\1/p' "$manifest")
    [ -z "$name" ] || echo "$(dirname "$manifest") $name"
  done | awk '{ print length($1), $0 }' | sort -rn | cut -d' ' -f2-
}

cargo fmt --all --check
tests/house.py >/dev/null || tests/house.py

changed=$({ git diff --name-only "$base"; git ls-files --others --exclude-standard; } | sort -u)
all=$(packages)
crates=() native=() tested=()
while read -r folder name; do
  # A file belongs to the deepest folder with a manifest.
  of_crate=$(grep "^$folder/" <<<"$changed" || true)
  changed=$(grep -v "^$folder/" <<<"$changed" || true)
  [ -n "$of_crate" ] || continue
  crates+=("$name")
  case $name in
    # They run in a proxy only.
    edgelink-filter | edgelink-hello-*) cargo clippy -p "$name" --profile wasm --target wasm32-wasip1 -- -D warnings ;;
    *)
      native+=(-p "$name")
      # A program alone has no unit tests.
      [ ! -e "$folder/src/lib.rs" ] || tested+=(-p "$name")
      ;;
  esac
done <<<"$all"
[ ${#crates[@]} -gt 0 ] || { echo "check: no crate has changed since $base"; exit 0; }
echo "check: ${crates[*]}"
[ ${#native[@]} -eq 0 ] || cargo clippy "${native[@]}" --all-targets -- -D warnings
[ ${#tested[@]} -eq 0 ] || cargo test "${tested[@]}" --lib --bins
