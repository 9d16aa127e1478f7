//! A migration that is added must be compiled in, though no Rust source changes.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
