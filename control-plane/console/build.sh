#!/usr/bin/env bash
# Builds what the console's pages load in the browser, into dist/ beside this file: the module and its glue. The standard library
# is built with it, from the source in .edgelink/rust-src (tests/install.sh puts it there) or of rustup (rust-src): as small as can
# be. Where there is only the library that rustup has for the target, the module is larger.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
readonly target=wasm32-unknown-unknown
build=(cargo build --quiet --profile console --target "$target" -p edgelink-console)

cd "$root"
sysroot=$(rustc --print sysroot)
library=$root/.edgelink/rust-src/$(rustc --version | cut -d ' ' -f 2)/library
[[ -d $library ]] || library=$sysroot/lib/rustlib/src/rust/library
if [[ -d $library ]]; then
  # What a panic says is read by no one there.
  build+=(-Zbuild-std=std -Zbuild-std-features=optimize_for_size)
  export __CARGO_TESTS_ONLY_SRC_ROOT=$library RUSTC_BOOTSTRAP=1
  export RUSTFLAGS='-Zunstable-options -Cpanic=immediate-abort -Zlocation-detail=none'
elif [[ ! -d $sysroot/lib/rustlib/$target ]]; then
  printf 'console: Rust has neither its source nor the target %s: pages will do without script\n' "$target" >&2
  exit 0
fi
# Apart from all else: the environment above is none of other builds, which it would make start from the beginning.
output=${CARGO_TARGET_DIR:-$root/target}/console
"${build[@]}" --target-dir "$output"
unset __CARGO_TESTS_ONLY_SRC_ROOT RUSTC_BOOTSTRAP RUSTFLAGS
glue=$(mktemp -d)
trap 'rm -rf "$glue"' EXIT
cargo run --quiet -p edgelink-console-glue -- "$output/$target/console/edgelink_console.wasm" "$glue"
# What is as it was stays, so that the control plane, which has it in it, is not built once more.
for file in console_module.js console_module_bg.wasm; do
  cmp --silent "$glue/$file" "$here/dist/$file" || cp "$glue/$file" "$here/dist/$file"
done
