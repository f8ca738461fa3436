//! `share` and `open`: a text as the fragment of a link, and back.
//!
//! A fragment is base64url of a check and JSON: the first bytes of the JSON's SHA-256, then the JSON itself,
//! `{"name","model","tokenizer","settings","stream","state"}`. The state is everything that the text depends on beside the
//! model, its tokenizer, its own settings and the version of the streams.

use onedraw::STREAM_VERSION;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::about;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::line::Line;
use crate::state::State;
use crate::subject::Subject;

/// The characters of base64url, by their value.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// How many bytes of a SHA-256 tell whether a link is whole.
const CHECK: usize = 4;

/// How much of the hash of a model is in a link: enough to tell models apart.
const HASH: usize = 16;

/// What a link has.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shared {
    /// The name of the model, for people.
    name: String,
    /// The beginning of the hash of its weights.
    model: String,
    /// The beginning of the hash of its tokenizer.
    tokenizer: String,
    /// The beginning of the hash of its own settings.
    settings: String,
    stream: u32,
    state: Map<String, Value>,
}

/// What a text depends on beside a link: how texts are cut into tokens, what the model makes of these, and what holds
/// where the link sets nothing. Of each, the beginning of a hash.
#[derive(PartialEq)]
struct Pins {
    model: String,
    tokenizer: String,
    settings: String,
}

impl Pins {
    fn of(subject: &Subject) -> Self {
        let beginning = |hash: &str| hash.chars().take(HASH).collect();
        let settings = about::settings(subject);
        Self {
            model: beginning(&subject.hash),
            tokenizer: beginning(subject.tokenizer.sha256()),
            settings: beginning(&hexadecimal(&Sha256::digest(settings.as_bytes()))),
        }
    }

    /// What is different here, as sentences.
    fn differences(&self, here: &Self, name: &str, here_name: &str) -> Vec<String> {
        if self.model != here.model {
            return vec![format!(
                "The link was made with another model, {name}; here it is {here_name}, so the text will be another one."
            )];
        }
        let mut found = Vec::new();
        if self.tokenizer != here.tokenizer {
            found.push(
                "The tokenizer of the model is another one here, so the text may be another one.".to_owned(),
            );
        }
        if self.settings != here.settings {
            found.push(
                "The model's own settings are other ones here, so the text may be another one.".to_owned(),
            );
        }
        found
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The answer to `share`.
pub(crate) fn share(subject: &Subject, mut fields: Fields) -> Result<Line, Failure> {
    let state: Map<String, Value> = fields.required("state", "an object")?;
    fields.end()?;
    State::read(Fields(state.clone()))?.check(subject)?;
    let Pins { model, tokenizer, settings } = Pins::of(subject);
    let name = subject.id.clone();
    let shared = Shared { name, model, tokenizer, settings, stream: STREAM_VERSION, state };
    let bytes = serde_json::to_vec(&shared).map_err(|error| Failure::new("link", error.to_string()))?;
    let whole = [&check(&bytes), &bytes[..]].concat();
    Ok(json!({"fragment": encoded(&whole)}))
}

/// The answer to `open`.
pub(crate) fn open(subject: &Subject, mut fields: Fields) -> Result<Line, Failure> {
    let fragment: String = fields.required("fragment", "a text")?;
    fields.end()?;
    let changed =
        || Failure::new("link", "the link is not whole: it was cut or changed on its way; ask for it again");
    let bytes = decoded(fragment.trim_start_matches('#')).ok_or_else(changed)?;
    let (given, bytes) = bytes.split_at_checked(CHECK).ok_or_else(changed)?;
    if given != check(bytes) {
        return Err(changed());
    }
    let unreadable = |failure: Option<Failure>| {
        let why = failure.map(|failure| format!(" ({failure})")).unwrap_or_default();
        Failure::new("link", format!("the link cannot be read by this version of onedraw{why}"))
    };
    let shared: Shared = serde_json::from_slice(bytes).map_err(|_| unreadable(None))?;
    let Shared { name, model, tokenizer, settings, stream, mut state } = shared;
    let (given, here) = (Pins { model, tokenizer, settings }, Pins::of(subject));
    let mut warnings = given.differences(&here, &name, &subject.id);
    let read = |state: &Map<String, Value>| {
        State::read(Fields(state.clone())).map_err(|failure| unreadable(Some(failure)))
    };
    // Texts do not depend on guesses, so nothing is lost without them.
    if let Some(drafter) = read(&state)?.draft.filter(|name| !subject.offers(name)) {
        warnings.push(format!(
            "The link asks for guesses by the drafter {drafter}, which is not here. The text is the same without it."
        ));
        state.insert("draft".to_owned(), Value::Null);
        if let Some(Value::Object(beside)) = state.get_mut("beside") {
            beside.insert("draft".to_owned(), Value::Null);
        }
    }
    if stream != STREAM_VERSION {
        warnings.push(format!(
            "The link was made with version {stream} of the streams; here it is version {STREAM_VERSION}, so the text \
             will be another one."
        ));
    }
    // Another model has other limits, and the reader can change what does not fit.
    if let Err(failure) = read(&state)?.check(subject) {
        warnings.push(format!("The link asks for something that this model cannot do: {failure}"));
    }
    Ok(json!({"state": state, "warnings": warnings}))
}

fn check(bytes: &[u8]) -> [u8; CHECK] {
    let hash: [u8; 32] = Sha256::digest(bytes).into();
    std::array::from_fn(|place| hash[place])
}

/// Base64url without padding (RFC 4648).
fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let number = three.iter().fold(0_u32, |number, &byte| number << 8 | u32::from(byte))
            << (8 * (3 - three.len()));
        for place in 0..=three.len() {
            let six = number >> (18 - 6 * place) & 63;
            text.push(char::from(ALPHABET[six as usize]));
        }
    }
    text
}

/// The bytes of base64url; `None` if it is not.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for four in text.as_bytes().chunks(4) {
        let mut number = 0_u32;
        for character in four {
            let value = ALPHABET.iter().position(|known| known == character)?;
            number = number << 6 | value as u32;
        }
        number <<= 6 * (4 - four.len());
        let count = four.len() - 1;
        // One character is no byte, and bits after the last byte are not used.
        if count == 0 || number & ((1 << (24 - 8 * count)) - 1) != 0 {
            return None;
        }
        bytes.extend(&number.to_be_bytes()[1..1 + count]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64url_is_that_of_the_standard() {
        // The test vectors of RFC 4648, without padding.
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
            ("fooba", "Zm9vYmE"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encoded(bytes.as_bytes()), text);
            assert_eq!(decoded(text).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(encoded(&[0xfb, 0xff]), "-_8");
        for wrong in ["Z", "Zg==", "Zh", "Z g", "Zm9vY", "Zm+v", "ä"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }
}
