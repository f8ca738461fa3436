//! The fuzz target of request bodies over its corpus. See `fuzz/README.md`.

use onedraw_testkit::fuzz::replay;

#[path = "../../../fuzz/bodies.rs"]
mod bodies;

#[test]
fn bodies() {
    replay("bodies", 10, bodies::bodies);
}
