//! Parameters from JSON, orders in their short form, and parameters without any JSON.

use std::collections::BTreeSet;

use onedraw::{Order, ParamError, Plan, SamplingParams, StopConditions};

use super::Bytes;
use super::given::parameters;

/// A message is one line and begins with the name of a parameter, or with a name among those `given` that is
/// none.
pub(super) fn check_message(error: &ParamError, given: &BTreeSet<String>) {
    let text = error.to_string();
    assert!(!text.contains(['\n', '\r']), "an error of more than one line: {text:?}");
    assert!(text.starts_with(error.field()) && !error.message().is_empty(), "{text:?}");
    // `logit_bias.17` and `stop[0]` name their field first.
    let name = error.field().split(['.', '[']).next().unwrap_or_default();
    let known = field_names();
    assert!(name == "params" || known.contains(name) || !given.is_subset(&known), "{text:?}");
}

/// Every parameter, by its JSON form.
fn field_names() -> BTreeSet<String> {
    let params = SamplingParams { order: Some(Order::vllm()), ..SamplingParams::default() };
    names(&serde_json::to_value(params).expect("parameters are JSON"))
}

fn names(value: &serde_json::Value) -> BTreeSet<String> {
    value.as_object().into_iter().flat_map(|object| object.keys().cloned()).collect()
}

/// Parameters from JSON: what is read is valid, survives being written, and makes a plan; what is not read is
/// an error of one line that names its field. Orders in their short form too, and parameters made of the
/// bytes without any JSON.
pub fn params(data: &[u8]) {
    let made = parameters(&mut Bytes(data), 300);
    if made.validate().is_ok() {
        let json = serde_json::to_string(&made).expect("valid parameters can be written");
        assert_eq!(SamplingParams::from_json(&json), Ok(made), "{json}");
    }
    let Ok(text) = str::from_utf8(data) else { return };
    match SamplingParams::from_json(text) {
        Ok(params) => {
            assert_eq!(params.validate(), Ok(()));
            let json = serde_json::to_string(&params).expect("valid parameters can be written");
            assert_eq!(SamplingParams::from_json(&json).as_ref(), Ok(&params), "{json}");
            let plan = Plan::new(&params).expect("valid parameters make a plan");
            for vocabulary in [0, 1, 300, 1 << 20, (1 << 20) + 1] {
                let _ = plan.check_vocabulary(vocabulary);
            }
            assert!(StopConditions::new(&params).is_ok());
        }
        Err(error) => {
            let value = serde_json::from_str(text).unwrap_or_default();
            check_message(&error, &names(&value));
        }
    }
    match text.parse::<Order>() {
        Ok(order) => assert_eq!(order.to_string().parse(), Ok(order)),
        Err(error) => check_message(&error, &BTreeSet::new()),
    }
}
