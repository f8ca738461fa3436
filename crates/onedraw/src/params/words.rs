//! What serde says about a value that it cannot read, in the words of a user.

use crate::params::suggest::{Suggestion, suggestion};

/// What serde expects, and what a user would call it.
const WORDS: [(&str, &str); 9] = [
    ("i64", "a whole number"),
    ("u64", "a whole number of at least 0"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u8", "a whole number from 0 to 255"),
    ("f64", "a number"),
    ("a boolean", "true or false"),
    ("a sequence", "a list"),
    ("a map", "an object"),
    ("an option", "a value"),
];

/// A message of serde without names of Rust's types and without the list of all names there are. An unknown
/// name comes with the one that was probably meant.
pub(super) fn in_words(message: &str) -> String {
    if let Some((name, _)) = message.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`')) {
        let meant = match suggestion(name) {
            Some(Suggestion::Parameter(meant)) => format!("did you mean `{meant}`?"),
            Some(Suggestion::Instead(words)) => words.to_owned(),
            None => "no parameter has a similar name".to_owned(),
        };
        return format!("unknown field `{}`; {meant}", shortened(name));
    }
    if let Some((found, expected)) = message.split_once(", expected ")
        && let Some((_, words)) = WORDS.iter().find(|(serde, _)| *serde == expected)
    {
        return format!("{found}, expected {words}");
    }
    message.to_owned()
}

/// A name of which a message shows no more than its beginning if it is long.
pub(super) fn shortened(name: &str) -> String {
    const SHOWN: usize = 64;
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::SamplingParams;

    #[test]
    fn messages_name_no_type_of_rust() {
        let error = |json: &str| SamplingParams::from_json(json).unwrap_err().to_string();
        for (json, message) in [
            (r#"{"top_k": 2.5}"#, "top_k: invalid type: floating point `2.5`, expected a whole number"),
            (
                r#"{"max_tokens": -1}"#,
                "max_tokens: invalid value: integer `-1`, expected a whole number from 0 to 4294967295",
            ),
            (r#"{"temperature": "warm"}"#, "temperature: invalid type: string \"warm\", expected a number"),
            (r#"{"ignore_eos": 1}"#, "ignore_eos: invalid type: integer `1`, expected true or false"),
            (r#"{"bad_words_ids": 1}"#, "bad_words_ids: invalid type: integer `1`, expected a list"),
            (
                r#"{"tempreature": 1}"#,
                "tempreature: unknown field `tempreature`; did you mean `temperature`?",
            ),
            (
                r#"{"do_sample": true}"#,
                "do_sample: unknown field `do_sample`; greedy text is `temperature` 0",
            ),
            (r#"{"colour": 1}"#, "colour: unknown field `colour`; no parameter has a similar name"),
        ] {
            assert_eq!(error(json), message);
        }
        let long = error(&format!(r#"{{"{}": 1}}"#, "é".repeat(5_000_000)));
        let shown = format!("{}…", "é".repeat(64));
        assert_eq!(long, format!("{shown}: unknown field `{shown}`; no parameter has a similar name"));
    }
}
