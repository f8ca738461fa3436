//! What the documents say of fields is what the server does with them.

use std::fs;
use std::path::Path;

use onedraw_serve::{Interface, TREATED, Treatment};

/// The table of fields that mean nothing. With `ONEDRAW_WRITE=1` in the environment it is written.
#[test]
fn the_page_lists_the_fields_that_mean_nothing() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/serve.md");
    let page = fs::read_to_string(&path).expect("a page");
    let (before, rest) = page.split_once("<!-- treated -->\n").expect("a table");
    let (table, after) = rest.split_once("<!-- /treated -->").expect("an end");
    let written = written();
    if std::env::var_os("ONEDRAW_WRITE").is_some() {
        fs::write(&path, format!("{before}<!-- treated -->\n{written}<!-- /treated -->{after}"))
            .expect("a page");
        return;
    }
    assert_eq!(table, written);
}

fn written() -> String {
    let mut table = String::from("| field | where | |\n|---|---|---|\n");
    for (name, interfaces, treatment) in TREATED {
        let place = |interface: &Interface| match interface {
            Interface::Completions => "completions",
            Interface::Chat => "chats",
            Interface::Responses => "responses",
        };
        let places: Vec<&str> = interfaces.iter().map(place).collect();
        let places = if places.len() == 3 { "everywhere".to_owned() } else { places.join(", ") };
        let what = match treatment {
            Treatment::NoEffect => "accepted without effect".to_owned(),
            Treatment::Refused => "refused".to_owned(),
            Treatment::Only(values) => format!("refused, but for `{}`", values.join("` and `")),
        };
        table += &format!("| `{name}` | {places} | {what} |\n");
    }
    table
}
