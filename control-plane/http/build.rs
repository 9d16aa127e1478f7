//! Puts the files of the console's pages into the binary.

use flate2::{Compression, write::GzEncoder};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The files that are there as they are, and those that `make console` builds, which may be missing.
const FOLDERS: [&str; 2] = ["../console/assets", "../console/dist"];

fn main() -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let mut files = Vec::new();
    for folder in FOLDERS {
        println!("cargo:rerun-if-changed={folder}");
        files.extend(files_in(folder)?);
    }
    files.sort_unstable();
    let mut list = "&[\n".to_owned();
    for (name, path) in files {
        let gzip = out.join(format!("{name}.gz"));
        fs::write(&gzip, compressed(&fs::read(&path)?)?)?;
        let _ = writeln!(
            list,
            "Asset {{ name: {name:?}, bytes: include_bytes!({path:?}), gzip: include_bytes!({gzip:?}) }},"
        );
    }
    list.push_str("]\n");
    fs::write(out.join("assets.rs"), list)
}

/// Names and absolute paths of the files of a folder; those whose name begins with a dot are for git.
fn files_in(folder: &str) -> io::Result<Vec<(String, PathBuf)>> {
    let root = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let mut files = Vec::new();
    for entry in fs::read_dir(Path::new(&root).join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && entry.file_type()?.is_file() {
            files.push((name, entry.path()));
        }
    }
    Ok(files)
}

fn compressed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}
