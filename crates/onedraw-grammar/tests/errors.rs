//! What cannot be a grammar, and what a matcher refuses: errors of one line, with a place where there is one,
//! and never a panic.

use onedraw::Constraint;
use onedraw_grammar::{Grammar, GrammarError, Place, Vocabulary};

use crate::vocabularies::{self, ids};

type Make = fn(&Vocabulary, &str) -> Result<Grammar, GrammarError>;

#[track_caller]
fn error(make: Make, text: &str) -> GrammarError {
    let error = make(&vocabularies::stories(), text).err().unwrap_or_else(|| panic!("it compiles: {text}"));
    let message = error.to_string();
    assert!(
        !message.is_empty() && message.lines().count() == 1 && !message.contains("panic"),
        "{text}: {message}"
    );
    error
}

#[track_caller]
fn assert_malformed(make: Make, text: &str, place: Option<(usize, usize)>, words: &str) {
    match error(make, text) {
        GrammarError::Malformed { message, place: found } => {
            assert!(message.contains(words), "{text}: {message}");
            assert_eq!(found, place.map(|(line, column)| Place { line, column }), "{text}: {message}");
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[track_caller]
fn assert_unsatisfiable(make: Make, text: &str, words: &str) {
    match error(make, text) {
        GrammarError::Unsatisfiable(message) => assert!(message.contains(words), "{text}: {message}"),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn json_that_is_none() {
    for make in [Grammar::json_schema as Make, Grammar::compact_json_schema] {
        assert_malformed(make, "", Some((1, 1)), "EOF while parsing a value");
        assert_malformed(make, "{\"type\": }", Some((1, 10)), "expected value");
        assert_malformed(make, "{\n  \"type\": \"object\",\n  \"é\" 1}", Some((3, 7)), "expected `:`");
        assert_malformed(make, "{} {}", Some((1, 4)), "trailing characters");
    }
    assert_malformed(Grammar::llguidance, "{\"grammars\": [}", Some((1, 15)), "expected value");
    assert_eq!(error(Grammar::json_schema, "{]").to_string(), "line 1, column 2: key must be a string");
}

#[test]
fn schemas_that_make_no_sense() {
    assert_malformed(Grammar::json_schema, "17", None, "schema must be an object or boolean");
    assert_malformed(Grammar::json_schema, r#"{"type": "integr"}"#, None, "integr");
    assert_malformed(Grammar::json_schema, r#"{"type": 7}"#, None, "type");
    assert_malformed(Grammar::json_schema, r#"{"uniqueItems": true, "type": "array"}"#, None, "uniqueItems");
    assert_malformed(Grammar::json_schema, r#"{"$ref": "http://example.com/schema"}"#, None, "example.com");
    assert_malformed(Grammar::json_schema, r##"{"$ref": "#/$defs/none"}"##, None, "none");
    assert_malformed(Grammar::json_schema, r#"{"type": "string", "pattern": "("}"#, None, "unclosed group");
    assert_malformed(Grammar::json_schema, r#"{"x-guidance": {"white": 1}}"#, None, "white");
}

#[test]
fn schemas_that_nothing_keeps_to() {
    for make in [Grammar::json_schema as Make, Grammar::compact_json_schema] {
        assert_unsatisfiable(make, r#"{"type": "integer", "minimum": 5, "maximum": 3}"#, "minimum");
        assert_unsatisfiable(make, r#"{"enum": []}"#, "");
        assert_unsatisfiable(make, "false", "");
        assert_unsatisfiable(
            make,
            r#"{"type": "object", "properties": {"a": {"type": "object", "properties": {"b": false}, "required": ["b"]}}, "required": ["a"]}"#,
            "'b'",
        );
        assert_unsatisfiable(make, r#"{"type": "array", "minItems": 3, "maxItems": 2}"#, "");
        assert_unsatisfiable(make, r#"{"type": "string", "minLength": 3, "maxLength": 2}"#, "");
        assert_unsatisfiable(make, r#"{"type": "integer", "minimum": 3, "maximum": 5, "multipleOf": 7}"#, "");
        assert_unsatisfiable(make, r#"{"allOf": [{"type": "integer"}, {"type": "string"}]}"#, "");
    }
}

#[test]
fn expressions_that_are_none() {
    assert_malformed(Grammar::regex, "ab(c", Some((1, 3)), "unclosed group");
    assert_malformed(Grammar::regex, "é[z-a]", Some((1, 3)), "invalid character class range");
    assert_malformed(Grammar::regex, "a\nb*)", Some((2, 3)), "unopened group");
    assert_malformed(Grammar::regex, "abc\\", Some((1, 4)), "incomplete escape");
    assert_malformed(Grammar::regex, "a{2,1}", Some((1, 2)), "invalid repetition");
    assert_malformed(Grammar::regex, "(?=a)b", Some((1, 1)), "look-around");
    assert_malformed(Grammar::regex, "(a)\\1", Some((1, 4)), "backreferences");
    assert_malformed(Grammar::regex, "*", Some((1, 1)), "repetition operator missing expression");
    assert_unsatisfiable(Grammar::regex, "a[^\\s\\S]", "");
    assert_eq!(error(Grammar::regex, "ab(c").to_string(), "line 1, column 3: unclosed group");
}

#[test]
fn lark_that_is_none() {
    for make in [Grammar::lark as Make, Grammar::llguidance] {
        assert_malformed(make, "start: \"a\" (\n", Some((1, 13)), "Expected token ')'");
        assert_malformed(
            make,
            "start: \"a\"\nword: | | )\n",
            Some((2, 11)),
            "expecting rule, token or statement",
        );
        assert_malformed(make, "start: \"a\" missing\n", Some((1, 8)), "unknown name: \"missing\"");
        assert_malformed(
            make,
            "start: \"a\"\n  | /(/\n",
            Some((1, 8)),
            "invalid regex \"(\" (in regex): unclosed group",
        );
        assert_malformed(make, "begin: \"a\"\n", None, "no start rule found");
        assert_malformed(make, "start: A\nA: B\nB: A\n", Some((3, 4)), "circular reference in token \"A\"");
        assert_malformed(make, "start: \"a\" $\n", Some((1, 12)), "lexer error");
        assert_malformed(make, "start: \"a\"\nstart: \"b\"\n", Some((2, 8)), "duplicate rule");
        assert_malformed(make, "start: A\nA: \"a\"{2,1}\n", Some((2, 4)), "range end must be >= start");
        assert_malformed(make, "", None, "no start rule found");
    }
    let error = error(Grammar::lark, "start: \"a\" $\n");
    assert_eq!(error.to_string(), "line 1, column 12: lexer error");
    assert_eq!(error.place(), Some(Place { line: 1, column: 12 }));
}

#[test]
fn grammars_of_llguidance_that_are_none() {
    assert_malformed(Grammar::llguidance, "", None, "");
    assert_malformed(Grammar::llguidance, r#"{"grammars": []}"#, None, "empty grammars array");
    assert_malformed(Grammar::llguidance, r#"{"grammars": [{}]}"#, None, "lark_grammar or json_schema");
    assert_malformed(Grammar::llguidance, r#"{"grammar": []}"#, Some((1, 15)), "missing field `grammars`");
    assert_malformed(Grammar::llguidance, "%llguidance {\"no\": }\nstart: \"a\"\n", None, "expected value");
}

#[test]
fn choices_that_are_none() {
    let none: [&str; 0] = [];
    let error = Grammar::choices(&vocabularies::stories(), &none).err().unwrap();
    assert_eq!(error, GrammarError::Unsatisfiable("there are no choices".into()));
    // There is no way to write it.
    let vocabulary = Vocabulary::builder(["", "a", "b"]).eos([0]).build().unwrap();
    let error = Grammar::choices(&vocabulary, &["c"]).err().unwrap();
    assert!(matches!(error, GrammarError::Unsatisfiable(_)), "{error:?}");
}

/// A compiler that goes deep must not take the stack with it.
#[test]
fn deep_grammars() {
    let parentheses = format!("start: {}\"a\"{}\n", "(".repeat(20_000), ")".repeat(20_000));
    _ = Grammar::lark(&vocabularies::stories(), &parentheses);
    let mut chain = String::from("start: r0\n");
    for rule in 0..20_000 {
        chain += &format!("r{rule}: r{}\n", rule + 1);
    }
    _ = Grammar::lark(&vocabularies::stories(), &(chain + "r20000: \"a\"\n"));
    let mut refs = String::from(r##"{"$ref": "#/$defs/d0", "$defs": {"##);
    for def in 0..20_000 {
        refs += &format!(r##""d{def}": {{"$ref": "#/$defs/d{}"}}, "##, def + 1);
    }
    _ = Grammar::json_schema(&vocabularies::stories(), &(refs + r#""d20000": true}}"#));
    let expression = format!("{}a{}", "(".repeat(20_000), ")".repeat(20_000));
    _ = Grammar::regex(&vocabularies::stories(), &expression);
}

#[test]
fn a_token_that_does_not_fit_leaves_everything_as_it_was() {
    let (vocabulary, tokenizer) = (vocabularies::stories(), vocabularies::tokenizer());
    let grammar =
        Grammar::json_schema(&vocabulary, r#"{"type": "array", "items": {"type": "boolean"}}"#).unwrap();
    let [open, t, comma] = ["[", "true", ","].map(|text| tokenizer.encode_plain(text).unwrap());
    let mut matcher = grammar.start();
    matcher.accept(open[0]).unwrap();
    let before = matcher.mask().unwrap().to_vec();
    let allowed = ids(&before);
    let mut refused = 0;
    for token in 0..4097 {
        if !allowed.contains(&token) {
            let message = matcher.accept(token).unwrap_err().to_string();
            assert!(
                message.starts_with(&format!("token {token} (")) && message.contains("cannot come at 1"),
                "{message}"
            );
            refused += 1;
        }
    }
    assert!(refused > 4000);
    let message = matcher.accept(comma[0]).unwrap_err().to_string();
    assert_eq!(
        message,
        format!("token {} (\",\") cannot come at 1: the grammar does not go on with it", comma[0])
    );
    assert_eq!(
        matcher.accept(0).unwrap_err().to_string(),
        "token 0 (\"\") cannot come at 1: the text is not complete"
    );
    assert_eq!(matcher.mask().unwrap(), before);
    for token in t {
        matcher.accept(token).unwrap();
    }
    assert_eq!(
        matcher.rollback(99).unwrap_err().to_string(),
        format!("99 tokens cannot be taken back: there are {}", matcher.tokens().len())
    );
    matcher.rollback(matcher.tokens().len() - 1).unwrap();
    assert_eq!(matcher.mask().unwrap(), before);
    matcher.rollback(1).unwrap();
    assert!(matcher.rollback(1).is_err());
    matcher.rollback(0).unwrap();
}

#[test]
fn a_dead_end_is_an_error_that_can_be_taken_back() {
    // No token can write the c.
    let vocabulary = Vocabulary::builder(["", "a", "b"]).eos([0]).build().unwrap();
    let grammar = Grammar::regex(&vocabulary, "a(b|bc+a)|ac").unwrap();
    let mut matcher = grammar.start();
    matcher.accept(1).unwrap();
    assert_eq!(ids(matcher.mask().unwrap()), [2]);
    let grammar = Grammar::regex(&vocabulary, "ac|bb").unwrap();
    let mut matcher = grammar.start();
    matcher.accept(1).unwrap();
    assert!(matcher.mask().unwrap_err().to_string().starts_with("no token can follow"));
    assert!(matcher.mask().is_err());
    assert!(matcher.accept(1).is_err());
    assert!(matcher.fork().mask().is_err());
    matcher.rollback(1).unwrap();
    assert_eq!(ids(matcher.mask().unwrap()), [1, 2]);
    matcher.accept(2).unwrap();
    assert_eq!(ids(matcher.mask().unwrap()), [2]);
}
