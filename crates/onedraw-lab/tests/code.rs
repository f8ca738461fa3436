//! `code`: what a reader can paste elsewhere.

use serde_json::json;

use crate::support::{Counting, lab, one};

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
