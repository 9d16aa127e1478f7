//! Makes of the console's module for the browser the files that pages load: `edgelink-console-glue MODULE FOLDER`.
//!
//! It is what the program `wasm-bindgen` does, built from this workspace's lock file, so that nothing has to be installed and
//! both halves of wasm-bindgen are of one version.

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
