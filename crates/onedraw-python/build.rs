//! Says to the linker that the interpreter brings Python's symbols: macOS needs to be told.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
