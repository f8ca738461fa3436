//! What `--vary` asks for.

use anyhow::{Result, anyhow, bail};
use onedraw::suggest::{Suggestion, suggestion};
use serde_json::Value;

use crate::flags::contrast::ContrastFlags;
use crate::flags::parameters::ParameterFlags;
use crate::flags::value::read;

/// Parameters that do not change what can be drawn next.
const WITHOUT_EFFECT: [&str; 11] = [
    "banned_strings",
    "ignore_eos",
    "include_stop_str_in_output",
    "logprobs",
    "logprobs_mode",
    "max_tokens",
    "mirostat_eta",
    "n",
    "probability",
    "prompt_logprobs",
    "stop",
];

/// Reads `NAME=VALUE,VALUE`: the parameter that is varied, and each of its values as it was written and as it
/// was read.
pub(super) fn varied(text: &str) -> Result<(String, Vec<(String, Value)>)> {
    let (name, values) = text.split_once('=').ok_or_else(|| {
        anyhow!("--vary: NAME=VALUE,VALUE is wanted, such as temperature=0.5,1,2, not `{text}`")
    })?;
    let name = name.trim().replace('-', "_");
    if !ParameterFlags::is_parameter(&name) && !ContrastFlags::NUMBERS.contains(&name.as_str()) {
        let meant = match suggestion(&name) {
            Some(Suggestion::Parameter(meant)) => format!("; did you mean `{meant}`?"),
            _ => String::new(),
        };
        bail!("--vary: `{name}` is not a parameter{meant}");
    }
    if WITHOUT_EFFECT.contains(&name.as_str()) {
        bail!("--vary: {name} does not change what can be drawn next");
    }
    let values: Vec<(String, Value)> = apart(values)
        .into_iter()
        .map(|value| Ok((value.to_owned(), read(&name, [value])?)))
        .collect::<Result<_>>()
        .map_err(|error| anyhow!("--vary {name}: {error}"))?;
    if values.iter().any(|(written, _)| written.is_empty()) {
        bail!("--vary: a value of {name} is missing");
    }
    Ok((name, values))
}

/// Splits at commas, except at those within brackets and strings.
fn apart(text: &str) -> Vec<&str> {
    let (mut depth, mut in_string, mut is_escaped, mut start) = (0_i32, false, false, 0);
    let mut parts = Vec::new();
    for (place, character) in text.char_indices() {
        let was_escaped = std::mem::take(&mut is_escaped);
        match character {
            '\\' if in_string => is_escaped = !was_escaped,
            '"' if !was_escaped => in_string = !in_string,
            '[' | '{' if !in_string => depth += 1,
            ']' | '}' if !in_string => depth -= 1,
            ',' if !in_string && depth == 0 => {
                parts.push(text[start..place].trim());
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_between_commas() {
        assert_eq!(apart("0.5, 1,2"), ["0.5", "1", "2"]);
        assert_eq!(
            apart(r#"{"5": 1, "7": [2,3]},{},"a,\"b""#),
            [r#"{"5": 1, "7": [2,3]}"#, "{}", r#""a,\"b""#]
        );
        assert_eq!(apart(""), [""]);
    }

    #[test]
    fn what_is_varied() {
        let error = |text: &str| varied(text).expect_err(text).to_string();
        let (name, values) = varied("top-k=1,-1").expect("values");
        assert_eq!((name.as_str(), values[1].1.as_i64()), ("top_k", Some(-1)));
        assert_eq!(error("heat=1"), "--vary: `heat` is not a parameter");
        assert_eq!(error("top_k=1,,2"), "--vary: a value of top_k is missing");
        assert!(error("top_k").starts_with("--vary: NAME=VALUE,VALUE is wanted"));
    }
}
