//! `code`: what a reader can paste elsewhere.
//!
//! The folder `code` has what is told of some texts, as it is told, and the text that each of them writes. The Rust of
//! it is a part of this test and runs here; the tests of the Python package and of the page run the rest.
//! `WRITE_CODE=1` writes the folder anew.

use std::cell::RefCell;
use std::error::Error;
use std::path::Path;
use std::{env, fs};

use onedraw_lab::Subject;
use serde_json::{Value, json};

use crate::support::{Counting, ask, lab, one, text};

thread_local! {
    /// What the code has printed.
    static PRINTED: RefCell<String> = const { RefCell::new(String::new()) };
}

/// In the place of the macro that prints, so that a test can read it.
macro_rules! print {
    ($($part:tt)*) => {{
        let text = format!($($part)*);
        $crate::code::PRINTED.with_borrow_mut(|printed| printed.push_str(&text))
    }};
}

/// The code of some texts, by the name of its folder, as functions.
macro_rules! programs {
    ($($name:ident)*) => {
        $(
            mod $name {
                include!(concat!("code/", stringify!($name), "/code.rs"));

                pub fn run() -> Result<(), Box<dyn std::error::Error>> {
                    main()
                }
            }
        )*

        fn program(name: &str) -> fn() -> Result<(), Box<dyn Error>> {
            match name {
                $(stringify!($name) => $name::run,)*
                _ => panic!("{name} is not compiled: add it to the list"),
            }
        }
    };
}

programs!(plain schema stop bans bias order branch folder);

/// The texts, and the name of the model: one of a folder is found from this crate.
fn texts() -> Vec<(&'static str, &'static str, Value)> {
    let stories = |prompt: &str, params: Value| json!({"prompt": prompt, "params": params});
    let schema = json!({
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0, "maximum": 9}},
        "required": ["name", "age"],
        "additionalProperties": false,
    });
    vec![
        (
            "plain",
            "stories",
            stories("Tom's \"big\" dog", json!({"seed": "18446744073709551615", "max_tokens": 24})),
        ),
        (
            "schema",
            "stories",
            json!({"prompt": "The dog is ", "params": {"seed": "7", "max_tokens": 60}, "schema": schema.to_string()}),
        ),
        (
            "stop",
            "stories",
            stories(
                "Once upon a time",
                json!({"seed": "7", "max_tokens": 60, "stop": ["named", "."], "include_stop_str_in_output": true}),
            ),
        ),
        (
            "bans",
            "stories",
            stories(
                "Tom saw a big",
                json!({"seed": "7", "max_tokens": 30, "banned_strings": [" was", " a"], "bad_words": ["Tom"]}),
            ),
        ),
        (
            "bias",
            "stories",
            stories(
                "Tom saw a big",
                json!({"seed": "7", "max_tokens": 24, "logit_bias": {"300": 5.5, "412": -100.0}}),
            ),
        ),
        (
            "order",
            "stories",
            json!({
                "prompt": "Tom saw a big",
                "params": {"seed": "7", "max_tokens": 24, "temperature": 1.3, "top_k": 20, "min_p": 0.05},
                "order": ["min_p", "temperature", "top_k", "top_p", "penalties"],
            }),
        ),
        (
            "branch",
            "stories",
            json!({
                "prompt": "Tom saw a big",
                "params": {"seed": "7", "max_tokens": 24},
                "forced": [{"position": 2, "token": 300}],
            }),
        ),
        ("folder", "../../models/stories", stories("Tom saw a big", json!({"seed": "7", "max_tokens": 12}))),
    ]
}

#[test]
fn the_code_is_that_of_the_folder_and_writes_the_text() {
    let model = Counting::new();
    for (name, id, question) in texts() {
        let subject: Subject = model.named(id);
        let mut lab = lab(&model, &subject);
        let code = one(&mut lab, "code", &question);
        let (_, written) = text(&ask(&mut lab, "write", &question));
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/code").join(name);
        let of = |kind: &str| code[kind].as_str().expect("code").to_owned();
        for (file, told) in [
            ("code.rs", of("rust")),
            ("code.py", of("python")),
            ("program.sh", of("program") + "\n"),
            ("curl.sh", of("curl") + "\n"),
            ("text.txt", written.clone()),
        ] {
            if env::var_os("WRITE_CODE").is_some() {
                fs::create_dir_all(&folder).expect("a folder");
                fs::write(folder.join(file), &told).expect("a file");
            }
            assert_eq!(fs::read_to_string(folder.join(file)).expect(file), told, "{name}/{file}");
        }
        if env::var_os("WRITE_CODE").is_some() {
            continue;
        }
        PRINTED.take();
        program(name)().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(PRINTED.take(), written, "{name}");
    }
}

#[test]
fn a_text_is_a_command_rust_python_and_a_request() {
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    let question = json!({
        "prompt": "Tom's \"big\"",
        "params": {"seed": "7", "min_p": 0.1, "stop": ["."], "ignore_eos": true, "max_tokens": 9},
    });
    let code = one(&mut lab, "code", &question);
    assert_eq!(
        code["program"],
        r#"onedraw generate --ignore-eos=true --max-tokens=9 --min-p=0.1 --seed=7 --params '{"stop":["."]}' -- 'Tom'\''s "big"'"#
    );
    let rust = code["rust"].as_str().expect("code");
    for part in [
        "use onedraw_lm::{Generator, stories};",
        r#"tokenizer.encode("Tom's \"big\"")?"#,
        r#"\"min_p\":0.1"#,
        "generator.add_chosen(&prompt, params, &[].into(), None)?;",
    ] {
        assert!(rust.contains(part), "{part}\n{rust}");
    }
    let python = code["python"].as_str().expect("code");
    for part in
        ["onedraw.Generator()", r#""ignore_eos": True"#, r#"generator.generate("Tom's \"big\"", params)"#]
    {
        assert!(python.contains(part), "{part}\n{python}");
    }
    let curl = code["curl"].as_str().expect("code");
    assert!(
        curl.starts_with(
            "curl http://127.0.0.1:8080/v1/completions -H 'content-type: application/json' -d '{"
        ),
        "{curl}"
    );
    assert!(curl.contains(r#""prompt":"Tom'\''s \"big\"""#) && curl.contains(r#""seed":7"#), "{curl}");
    assert_eq!(code["notes"], json!([]));
}

#[test]
fn schemas_and_branches_are_in_the_code_or_in_the_notes() {
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    let question = json!({
        "prompt": "Tom", "params": {"seed": "7"}, "schema": "{\"type\": \"integer\"}", "forced": [{"position": 1, "token": 5}],
    });
    let code = one(&mut lab, "code", &question);
    let part = |name: &str| code[name].as_str().expect("code").to_owned();
    assert!(
        part("program").starts_with("printf %s '{\"type\": \"integer\"}' > schema.json\nonedraw generate"),
        "{}",
        part("program")
    );
    assert!(part("program").ends_with("--json-schema schema.json -- 'Tom'"), "{}", part("program"));
    assert!(part("rust").contains("&[(1, 5)].into(), Some(&grammar)"), "{}", part("rust"));
    assert!(
        part("python").contains("onedraw.Grammar.json_schema(generator.vocabulary(), \"{\\\"type\\\""),
        "{}",
        part("python")
    );
    assert!(
        part("curl").contains("/lab/write") && part("curl").contains(r#"{"position":1,"token":5}"#),
        "{}",
        part("curl")
    );
    let note = code["notes"][0].as_str().expect("a sentence");
    assert!(note.starts_with("The text has branches."), "{note}");
    let unseeded = one(&mut lab, "code", &json!({"prompt": "Tom"}));
    assert_eq!(unseeded["notes"], json!(["Without a seed, each run writes another text."]));
}
