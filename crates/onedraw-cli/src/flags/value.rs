//! What was written for one parameter, as a JSON value.

use anyhow::{Result, anyhow, bail};
use onedraw::SamplingParams;
use serde_json::{Map, Value};

use super::escape::unescaped;

/// The parameters whose values are text even if they look like numbers: `--stop 7` stops at "7". Only a list
/// is read as JSON.
pub(super) const TEXTS: [&str; 3] = ["stop", "banned_strings", "bad_words"];

/// The parameters with their values, by name.
pub fn values(params: &SamplingParams) -> Map<String, Value> {
    match serde_json::to_value(params) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Whether a parameter is a list, whose flag may be given several times.
pub(super) fn is_list(name: &str, default: Option<&Value>) -> bool {
    // Its default is null.
    name == "allowed_token_ids" || default.is_some_and(Value::is_array)
}

/// The value of a parameter from everything that was given for it. A list has the items of all of it, whether
/// they were given one by one or as lists.
pub fn read<'a>(name: &str, texts: impl IntoIterator<Item = &'a str>) -> Result<Value> {
    let defaults = values(&SamplingParams::default());
    let mut read = texts.into_iter().map(|text| one(name, text)).collect::<Result<Vec<_>>>()?;
    if !is_list(name, defaults.get(name)) {
        return read.pop().ok_or_else(|| anyhow!("a value is missing"));
    }
    let mut items = Vec::new();
    for value in read {
        match value {
            // An item of this list is a list itself.
            Value::Array(word) if name == "bad_words_ids" && !word.iter().all(Value::is_array) => {
                items.push(Value::Array(word));
            }
            Value::Array(list) => items.extend(list),
            item => items.push(item),
        }
    }
    Ok(Value::Array(items))
}

/// One value: JSON, or plain text, with its escapes, if it is not JSON.
fn one(name: &str, text: &str) -> Result<Value> {
    let json = onedraw::json::parse(text);
    if TEXTS.contains(&name) {
        return match json {
            Ok(value @ Value::Array(_)) => Ok(value),
            _ => unescaped(text).map(Value::String),
        };
    }
    match json {
        Ok(value) => Ok(value),
        // It was meant to be JSON.
        Err(error) if text.trim_start().starts_with(['[', '{']) => bail!("{}", error.message()),
        // Shells' users write .5, too.
        Err(_) => match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number.into()),
            Ok(_) if text.contains(|letter: char| letter.is_ascii_digit()) => bail!("{text} is too large"),
            _ => Ok(Value::String(text.to_owned())),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_json_or_text() {
        let value = |name, text| read(name, [text]).expect(text);
        assert_eq!(value("temperature", "0.5"), json!(0.5));
        assert_eq!(value("temperature", ".5"), json!(0.5));
        assert_eq!(value("temperature", "warm"), json!("warm"));
        assert_eq!(value("order", "vllm"), json!("vllm"));
        assert_eq!(value("logit_bias", r#"{"5": 1}"#), json!({"5": 1}));
        assert_eq!(value("stop", "[not a list"), json!(["[not a list"]));
        assert_eq!(value("stop", r#"{"a": 1}"#), json!([r#"{"a": 1}"#]));
    }

    #[test]
    fn lists_have_the_items_of_all_that_was_given() {
        let value = |name, texts: &[&str]| read(name, texts.iter().copied()).expect(name);
        assert_eq!(value("stop", &["a", r#"["b", "c"]"#]), json!(["a", "b", "c"]));
        assert_eq!(value("stop_token_ids", &["[1, 2]", "3"]), json!([1, 2, 3]));
        assert_eq!(value("allowed_token_ids", &["4"]), json!([4]));
        let words = json!([[1, 2], [3]]);
        assert_eq!(value("bad_words_ids", &["[[1, 2], [3]]"]), words);
        assert_eq!(value("bad_words_ids", &["[1, 2]", "[3]"]), words);
    }

    #[test]
    fn what_is_meant_to_be_json_must_be() {
        let error = |name, text| read(name, [text]).expect_err(text).to_string();
        assert!(error("logit_bias", r#"{"5": 1, "5": 20}"#).contains("`5`"), "a key twice");
        assert!(error("logit_bias", "{5}").starts_with("cannot be read as JSON: "));
        assert!(error("stop_token_ids", "[1").starts_with("cannot be read as JSON: "));
        assert_eq!(error("temperature", "1e400"), "1e400 is too large");
    }
}
