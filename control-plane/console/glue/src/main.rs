//! Generates the files that pages load from the console's WebAssembly module: `edgelink-console-glue MODULE FOLDER`.
//!
//! It replaces the program `wasm-bindgen`, and is built from this workspace's lock file, so that nothing has to be installed and
//! both halves of wasm-bindgen have the same version.

use std::error::Error;
use std::path::PathBuf;
use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(module), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: edgelink-console-glue MODULE FOLDER".into());
    };
    Bindgen::new()
        .input_path(module)
        .out_name("console_module")
        .web(true)?
        .typescript(false)
        .omit_default_module_path(false)
        .remove_name_section(true)
        .remove_producers_section(true)
        .generate(folder)?;
    Ok(())
}
