//! The checker on small crates that are made up for it.

use std::collections::BTreeMap;
use std::path::Path;

use super::graph::Graph;

fn graph(files: &[(&str, &str)]) -> Graph {
    let files: BTreeMap<&Path, &str> = files.iter().map(|&(name, text)| (Path::new(name), text)).collect();
    Graph::new(Path::new("src/lib.rs"), &|path| files.get(path).map(|&text| text.to_owned()))
}

/// The steps of the only circle, without where they are shown.
fn steps(files: &[(&str, &str)]) -> Vec<String> {
    let cycles = graph(files).cycles();
    assert!(cycles.len() < 2, "{cycles:?}");
    let lines = cycles.iter().flat_map(|cycle| cycle.lines().skip(1));
    lines.map(|line| line.trim().split(" (").next().expect("a step").replace("crate::", "")).collect()
}

#[test]
fn two_files_that_need_each_other() {
    let files = [
        ("src/lib.rs", "mod a; mod b; pub use a::A;"),
        ("src/a.rs", "\nuse crate::b::{self, B};\npub struct A(B);"),
        ("src/b.rs", "pub struct B;\nimpl B { fn f(_: &super::A) {} }"),
    ];
    assert_eq!(steps(&files), ["a needs b", "b needs a"]);
    assert_eq!(
        graph(&files).cycles(),
        ["2 modules need one another; a shortest circle:\
          \n    crate::a needs crate::b (src/a.rs:2: crate::b)\
          \n    crate::b needs crate::a (src/b.rs:2: super::A)"]
    );
    let mut allowed = graph(&files);
    assert!(allowed.allow("crate::b", "crate::a") && !allowed.allow("crate::b", "crate::a"));
    assert_eq!(allowed.cycles(), [""; 0]);
}

#[test]
fn the_shortest_of_several_circles_is_told() {
    let files = [
        ("src/lib.rs", "mod a; mod b; mod c; mod d;"),
        ("src/a.rs", "use crate::b;"),
        ("src/b.rs", "use crate::c;"),
        ("src/c.rs", "use crate::{a, d};"),
        ("src/d.rs", "fn f() { crate::c::f() }"),
    ];
    assert_eq!(steps(&files), ["c needs d", "d needs c"]);
    assert!(graph(&files).cycles()[0].starts_with("4 modules"));
}

/// A parent that re-exports its children does not need them; what they take from each other through it is
/// theirs.
#[test]
fn reexports_are_no_needs() {
    let files = [
        ("src/lib.rs", "pub mod folder; pub use folder::{A, Own};"),
        ("src/folder/mod.rs", "mod a; mod b; pub(crate) use self::{a::A, b::*}; pub struct Own;"),
        ("src/folder/a.rs", "use super::{B, Own}; pub struct A;"),
        ("src/folder/b.rs", "use crate::Own; pub struct B;"),
    ];
    assert_eq!(steps(&files), [""; 0]);
    let needs_sibling = [files[0], files[1], files[2], ("src/folder/b.rs", "use crate::A; pub struct B;")];
    assert_eq!(steps(&needs_sibling), ["folder::a needs folder::b", "folder::b needs folder::a"]);
}

/// A child that uses what the parent's own file declares needs the parent, which must not call the child
/// then.
#[test]
fn a_parent_that_calls_its_child() {
    let parent = "mod child; pub struct Own; fn f() { child::f() }";
    let files = [
        ("src/lib.rs", "mod folder;"),
        ("src/folder/mod.rs", parent),
        ("src/folder/child.rs", "use super::Own; pub fn f() {}"),
    ];
    assert_eq!(steps(&files), ["folder needs folder::child", "folder::child needs folder"]);
    let apart = [files[0], files[1], ("src/folder/child.rs", "pub fn f() {}")];
    assert_eq!(steps(&apart), [""; 0]);
    let imported = "mod child; use child::f; pub struct Own;";
    let files = [files[0], ("src/folder/mod.rs", imported), files[2]];
    assert_eq!(steps(&files), ["folder needs folder::child", "folder::child needs folder"]);
}

/// What the parent imports for itself comes from where it is declared, not from the parent.
#[test]
fn an_import_of_the_parent_leads_on() {
    let files = [
        ("src/lib.rs", "mod far; mod folder;"),
        ("src/far.rs", "pub struct Far;"),
        ("src/folder/mod.rs", "mod child; use crate::far::Far; fn f(_: Far) { child::f() }"),
        ("src/folder/child.rs", "pub fn f() { let _: super::Far; }"),
    ];
    assert_eq!(steps(&files), [""; 0]);
}

#[test]
fn what_is_no_need() {
    let quiet = r##"
        //! [`crate::b::B`]
        use std::fmt; use ::b::B as _; use fmt::b as other; mod b {} fn g() { ::b::f(); Vec::<u8>::b::f() }
        #[cfg(test)] use crate::b::B;
        #[cfg(all(test, unix))] fn f() -> crate::b::B { crate::b::B }
        pub(in crate::b) struct A { #[cfg(test)] b: crate::b::B, c: u8 }
        const TEXT: &str = "crate::b"; /* crate::b */ const RAW: &str = r#"" crate::b"#;
        #[cfg(test)] mod tests; #[cfg(test)] mod more { use crate::b::B; }
        mod inline { use super::TEXT; fn f() { self::g::<u8>(); b::x() } }
        macro_rules! made { ($name:ident) => { $name::f() } }
    "##;
    let files = [("src/lib.rs", "mod a; mod b;"), ("src/a.rs", quiet), ("src/b.rs", "use crate::a;")];
    assert_eq!(steps(&files), [""; 0]);
}

#[test]
fn what_is_a_need() {
    for loud in [
        "use crate::b::B;",
        "use crate::{c::C, b};",
        "use super::b::*;",
        "use crate as root; fn f() { root::b::f() }",
        "mod inline { use super::super::b::B; }",
        "fn f() { use crate::b::B; }",
        "fn f() -> Vec<crate::b::B> { crate::c::f::<super::b::B>() }",
        "macro_rules! made { () => { $crate::b::f() } }",
        "macro_rules! made { ($name:ident) => { use crate::b::$name; use $crate::b::{B as $name}; } }",
        "impl crate::b::Trait for A {}",
        "#[cfg(unix)] use crate::b::B;",
        "#[cfg(test)] struct A { b: u8 } fn f() { crate::b::f() }",
        "fn f<'a>(_: &'a str) { let _ = ('\"', crate::b::B, '\"'); }",
        "use crate::c::again; fn f() { again::f() }",
        "use crate::made_by_c;",
    ] {
        let files = [
            ("src/lib.rs", "mod a; mod b; mod c; pub(crate) use c::*;"),
            ("src/a.rs", loud),
            ("src/b.rs", "use crate::a;"),
            ("src/c.rs", "pub use crate::b as again; pub use crate::b::made_by_c; pub struct C;"),
        ];
        assert_eq!(steps(&files), ["a needs b", "b needs a"], "{loud}");
    }
}
