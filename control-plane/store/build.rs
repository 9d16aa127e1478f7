//! Rebuilds when a migration is added, which changes no Rust source.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
