//! `onedraw-bindgen MODULE FOLDER NAME [--no-typescript]`: makes the WebAssembly that a page loads of what cargo linked,
//! and the JavaScript around it, a module for browsers.
//!
//! wasm-bindgen's own program does the same; it has several others beside it and takes more than twice as long to build.

use std::env;
use std::error::Error;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (module, folder, name, has_types) = match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..]
    {
        [module, folder, name] => (*module, *folder, *name, true),
        [module, folder, name, "--no-typescript"] => (*module, *folder, *name, false),
        _ => return Err("usage: onedraw-bindgen MODULE FOLDER NAME [--no-typescript]".into()),
    };
    let mut bindgen = Bindgen::new();
    // The names of functions, which only stack traces show, are an eighth of the file.
    bindgen.input_path(module).out_name(name).typescript(has_types).remove_name_section(true);
    // A page that names no file gets the one beside the JavaScript.
    bindgen.omit_default_module_path(false);
    Ok(bindgen.web(true)?.generate(folder)?)
}
