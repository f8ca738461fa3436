//! `code`: what a reader can paste elsewhere.
//!
//! The folder `code` has what is told of some texts, as it is told, and the text that each of them writes. The Rust of
//! it is a part of this test and runs here; the tests of the Python package and of the page run the rest.
//! `WRITE_CODE=1` writes the folder anew.

use std::cell::RefCell;
use std::error::Error;
use std::path::Path;
use std::{env, fs};

use onedraw_lab::{Lab, Subject};
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

/// The same for lines.
macro_rules! println {
    ($($part:tt)*) => {
        print!("{}\n", format!($($part)*))
    };
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

programs!(plain schema stop bans bias order branch folder beams beams_schema);

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
        (
            "beams",
            "stories",
            json!({"prompt": "Tom saw a big", "params": {"max_tokens": 8}, "schema": null, "beams": {"width": 3}}),
        ),
        (
            "beams_schema",
            "stories",
            json!({
                "prompt": "Is it? ",
                "params": {"max_tokens": 12, "repetition_penalty": 1.1},
                "schema": json!({"enum": ["yes", "no", "maybe"]}).to_string(),
                "beams": {"width": 2, "style": "gnmt", "length_penalty": 0.5},
            }),
        ),
    ]
}

#[test]
fn the_code_is_that_of_the_folder_and_writes_the_text() {
    let model = Counting::new();
    for (name, id, question) in texts() {
        let subject: Subject = model.named(id);
        let mut lab = lab(&model, &subject);
        let code = one(&mut lab, "code", &question);
        let written = written(&mut lab, &question);
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
        let end = if question["beams"].is_null() { "" } else { "\n" };
        assert_eq!(PRINTED.take(), written + end, "{name}");
    }
}

/// The text that a question asks for; of a search, all that it finds, line by line.
fn written(lab: &mut Lab<'_, Counting>, question: &Value) -> String {
    if question["beams"].is_null() {
        return text(&ask(lab, "write", question)).1;
    }
    let found = one(lab, "beams", question)["found"].take();
    let found = found.as_array().expect("texts").iter();
    found.map(|found| found["text"].as_str().expect("a text")).collect::<Vec<_>>().join("\n")
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

#[test]
fn a_search_is_in_the_code_with_all_its_texts() {
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    let question = json!({
        "prompt": "Tom", "params": {"max_tokens": 5}, "beams": {"width": 3, "style": "vllm", "length_penalty": 2},
    });
    let code = one(&mut lab, "code", &question);
    assert_eq!(
        code["program"],
        "onedraw generate --beams=3 --beam-style=vllm --length-penalty=2.0 --n=3 --max-tokens=5 -- 'Tom'"
    );
    let rust = code["rust"].as_str().expect("code");
    for part in [
        "use onedraw::beam::{BeamParams, BeamStyle};\nuse onedraw_lm::{Beams, stories};\n",
        "BeamParams { width: 3, style: BeamStyle::Vllm, length_penalty: 2.0, ..BeamParams::default() };",
        "Beams::new(&model, &*tokenizer).search(&prompt, params, beams)?;",
    ] {
        assert!(rust.contains(part), "{part}\n{rust}");
    }
    let python = code["python"].as_str().expect("code");
    let part = "for found in generator.beams(\"Tom\", params, width=3, style=\"vllm\", length_penalty=2.0):\n    print(found.text)\n";
    assert!(python.ends_with(part) && python.contains(r#""n": 3"#), "{python}");
    let curl = code["curl"].as_str().expect("code");
    assert!(curl.contains("/lab/beams ") && curl.contains(r#""params":{"max_tokens":5}"#), "{curl}");
    assert!(curl.contains(r#""beams":{"length_penalty":2.0,"style":"vllm","width":3}"#), "{curl}");
    // A search draws nothing, so it needs no seed.
    assert_eq!(code["notes"], json!([]));
    for (beams, message) in [
        (json!({"width": 0}), "must be in [1, 4096], not 0"),
        (json!({"width": 70000}), "must be in [1, 4096], not 70000"),
        (json!({"width": 2, "length_penalty": 101}), "must be in [-100, 100], not 101"),
        (json!(3), "must be an object"),
    ] {
        let error = ask(&mut lab, "code", &json!({"prompt": "Tom", "beams": beams})).remove(0);
        let told = error["error"]["message"].as_str().expect("a sentence");
        assert!(told.contains(message), "{told}");
    }
}
