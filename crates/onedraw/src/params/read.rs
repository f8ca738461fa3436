//! The forms in which JSON may give a parameter: one value or a list, a map with ids as strings, a seed or
//! −1.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// A reader of a list that may also be given as a single value or as null.
macro_rules! one_or_many {
    ($name:ident, $type:ty, $expecting:literal) => {
        pub(super) fn $name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<$type>, D::Error> {
            #[derive(Deserialize)]
            #[serde(untagged, expecting = $expecting)]
            enum Form {
                Many(Vec<$type>),
                One($type),
                Null,
            }
            Ok(match Form::deserialize(deserializer)? {
                Form::Many(values) => values,
                Form::One(value) => vec![value],
                Form::Null => Vec::new(),
            })
        }
    };
}

one_or_many!(strings, String, "expected a string or a list of strings");
one_or_many!(ids, u32, "expected a token id or a list of token ids");

/// Reads biases from an object. Keys of JSON are strings; each must be a token id, and no two the same one.
pub(super) fn biases<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<u32, f64>, D::Error> {
    let mut biases = BTreeMap::new();
    for (key, bias) in BTreeMap::<String, f64>::deserialize(deserializer)? {
        let error = |what| serde::de::Error::custom(format!("the key `{key}` {what}"));
        let token = key.parse().map_err(|_| error("is not a token id"))?;
        if biases.insert(token, bias).is_some() {
            return Err(error("names a token that another key names too"));
        }
    }
    Ok(biases)
}

/// Reads a seed; −1 and null mean that there is none.
pub(super) fn seed_or_minus_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected 0 to 2^64-1, or -1 or null for a seed from the system")]
    enum Form {
        Seed(u64),
        Minus(i64),
        Null,
    }
    match Form::deserialize(deserializer)? {
        Form::Seed(seed) => Ok(Some(seed)),
        Form::Minus(-1) | Form::Null => Ok(None),
        Form::Minus(other) => {
            Err(serde::de::Error::custom(format!("must be 0 to 2^64-1, or -1, not {other}")))
        }
    }
}
