//! `share` and `open`: a text as the fragment of a link, and back.
//!
//! A fragment is base64url of JSON, after a check of the two: `{"model","stream","state"}`. The state is everything that
//! the text depends on beside the model.

use onedraw::STREAM_VERSION;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::failure::Failure;
use crate::line::Line;
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
    stream: u32,
    state: Map<String, Value>,
}

/// The answer to `share`.
pub(crate) fn share(subject: &Subject, mut fields: Map<String, Value>) -> Result<Line, Failure> {
    let Some(Value::Object(state)) = fields.remove("state") else {
        return Err(Failure::field("question", "state", "must be an object"));
    };
    subject.check_state(state.clone())?;
    let model = subject.hash.chars().take(HASH).collect();
    let shared = Shared { name: subject.id.clone(), model, stream: STREAM_VERSION, state };
    let bytes = serde_json::to_vec(&shared).map_err(|error| Failure::new("link", error.to_string()))?;
    let whole = [&check(&bytes), &bytes[..]].concat();
    Ok(json!({"fragment": encoded(&whole)}))
}

/// The answer to `open`.
pub(crate) fn open(subject: &Subject, fields: Map<String, Value>) -> Result<Line, Failure> {
    let Some(Value::String(fragment)) = fields.get("fragment") else {
        return Err(Failure::field("question", "fragment", "must be a string"));
    };
    let changed =
        || Failure::new("link", "the link is not whole: it was cut or changed on its way; ask for it again");
    let bytes = decoded(fragment.trim_start_matches('#')).ok_or_else(changed)?;
    let (given, bytes) = bytes.split_at_checked(CHECK).ok_or_else(changed)?;
    if given != check(bytes) {
        return Err(changed());
    }
    let Shared { name, model, stream, state } = serde_json::from_slice(bytes).map_err(|_| {
        Failure::new("link", "the link was made by another version of onedraw, which this one cannot read")
    })?;
    let mut warnings = Vec::new();
    if !subject.hash.starts_with(&model) || model.len() != HASH {
        warnings.push(format!(
            "The link was made with another model, {name}; here it is {}, so the text will be another one.",
            subject.id
        ));
    }
    if stream != STREAM_VERSION {
        warnings.push(format!(
            "The link was made with version {stream} of the streams; here it is version {STREAM_VERSION}, so the text \
             will be another one."
        ));
    }
    // Another model has other limits, and the reader can change what does not fit.
    if let Err(failure) = subject.check_state(state.clone()) {
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
