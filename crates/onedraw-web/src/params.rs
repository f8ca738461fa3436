//! Parameters as JSON, with the seed beside them.

use onedraw::{ParamError, SamplingParams, json, seed};
use serde_json::{Map, Value};

/// Reads an object of parameters. `seed` is decimal text, where there is one: JSON that JavaScript writes cannot hold
/// all seeds.
pub fn object(text: &str, seed: Option<&str>) -> Result<Map<String, Value>, ParamError> {
    let Value::Object(mut object) = json::parse(text)? else {
        return Err(ParamError::new("params", "must be an object"));
    };
    if let Some(seed) = seed {
        let number = match seed {
            "-1" => Value::from(-1),
            digits => seed::parse(digits)?.into(),
        };
        object.insert("seed".to_owned(), number);
    }
    Ok(object)
}

/// Reads and checks parameters.
pub fn read(text: &str, seed: Option<&str>) -> Result<SamplingParams, ParamError> {
    SamplingParams::from_value(Value::Object(object(text, seed)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_can_be_given() {
        let seed = |seed| read(r#"{"top_k": 2}"#, seed).map(|params| (params.seed, params.top_k));
        assert_eq!(seed(None), Ok((None, 2)));
        assert_eq!(seed(Some("-1")), Ok((None, 2)));
        assert_eq!(seed(Some("0")), Ok((Some(0), 2)));
        assert_eq!(seed(Some("18446744073709551615")), Ok((Some(u64::MAX), 2)));
        for wrong in ["18446744073709551616", "", "1.5", "+1", "-2", "0x10", "7n", " 7"] {
            let error = seed(Some(wrong)).expect_err(wrong);
            assert_eq!(error.field(), "seed");
            assert!(error.message().contains(wrong), "{error}");
        }
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        for text in ["[]", "7", "null", "{"] {
            assert_eq!(read(text, None).expect_err(text).field(), "params");
        }
        assert_eq!(read(r#"{"top_q": 1}"#, None).expect_err("an unknown name").field(), "top_q");
    }
}
