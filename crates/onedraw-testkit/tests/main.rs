//! The integration tests of this crate, in one program: it is compiled and linked once.
//!
//! A new file needs its line here. [`modules`] and [`test_files`] look at the source of all crates.

mod modules;
mod oracle;
mod test_files;
