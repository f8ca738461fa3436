//! The tests of the package; those of the functions are in `c/`, run by `.ci/c`.

mod header;
