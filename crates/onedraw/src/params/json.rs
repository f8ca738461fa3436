//! Reads JSON and refuses objects that have a key twice. A usual reader would silently drop one of the two
//! values.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::params::error::ParamError;

/// Reads a JSON text. The field of its error is `params`.
pub fn parse(text: &str) -> Result<Value, ParamError> {
    let unique: Unique = serde_json::from_str(text)
        .map_err(|error| ParamError::new("params", format!("cannot be read as JSON: {error}")))?;
    Ok(unique.0)
}

/// A JSON value without repeated keys.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Unique, E> {
        Ok(Unique(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Unique, E> {
        Ok(Unique(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Unique, E> {
        Ok(Unique(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Unique, E> {
        Ok(Unique(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Unique, E> {
        Ok(Unique(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Unique, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Unique(list.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Unique, A::Error> {
        // Sorted by name, whether or not another crate makes serde_json keep the order of the file: messages
        // about a file must not depend on which crates are built.
        let mut object = BTreeMap::new();
        while let Some((key, Unique(value))) = entries.next_entry::<String, _>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{key}` stands twice")));
            }
            object.insert(key, value);
        }
        Ok(Unique(Value::Object(object.into_iter().collect())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_serde_json_reads_but_for_repeated_keys() {
        for text in
            ["null", "[1, -2, 2.5, true, \"x\", {}]", r#"{"a": {"b": [18446744073709551615]}, "c": 1e-5}"#]
        {
            assert_eq!(parse(text).unwrap(), serde_json::from_str::<Value>(text).unwrap(), "{text}");
        }
        let error = parse(r#"{"seed": 1, "top_k": 2, "seed": 1}"#).unwrap_err().to_string();
        assert_eq!(error, "params: cannot be read as JSON: the key `seed` stands twice at line 1 column 34");
        assert!(parse(r#"[{"logit_bias": {"1": 2, "1": 3}}]"#).is_err());
        assert!(parse("{} {}").is_err());
    }
}
