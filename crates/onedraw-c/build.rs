//! Keeps symbols of dependencies out of the shared library: llguidance exports a C interface of its own, which would
//! meet that of another copy in the same program.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    // Dependencies are archives to the linker, and the functions of this crate are not.
    if ["linux", "android", "freebsd", "netbsd", "openbsd"].contains(&system.as_str()) {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    }
}
