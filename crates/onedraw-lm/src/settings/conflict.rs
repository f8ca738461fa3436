//! Which parameters cannot stand beside each other.

use onedraw::params::MAX_TEMPERATURE;
use onedraw::{Order, STAGE_FIELDS, SamplingParams};

/// Two parameters that validation refuses together. Their values may be the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    /// The one that validation names.
    pub named: &'static str,
    pub other: &'static str,
}

/// Every conflict in parameters whose values are allowed one by one, in the order in which validation finds
/// them.
///
/// These are the rules of [`SamplingParams::validate`] that look at more than one parameter.
pub(super) fn conflicts(params: &SamplingParams) -> Vec<Conflict> {
    let mut found = Vec::new();
    let mut add = |named, other| found.push(Conflict { named, other });
    if params.min_tokens > params.max_tokens {
        add("min_tokens", "max_tokens");
    }
    if params.temperature + params.dynatemp_range > MAX_TEMPERATURE {
        add("dynatemp_range", "temperature");
    }
    let default = Order::default();
    let order = params.order.as_ref().unwrap_or(&default);
    let set = || STAGE_FIELDS.iter().filter(|field| field.is_set(params));
    // A parameter whose stage the order leaves out would be ignored.
    for field in set().filter(|field| !order.names(&field.stage)) {
        add(field.name, "order");
    }
    // In the default order mirostat takes the place of every other truncation, which would be ignored.
    if params.mirostat > 0 && *order == default {
        for field in set().filter(|field| field.truncates()) {
            add(field.name, "mirostat");
        }
    }
    if divides_too_much(params) {
        if params.dynatemp_range > 0.0 {
            add("order", "dynatemp_range");
        }
        add("order", "temperature");
    }
    found
}

/// Whether the order names the temperature so often that the product of all divisions is out of range. The
/// library judges this: it gets the parameters that matter, and names the order if they cannot stand
/// together.
fn divides_too_much(params: &SamplingParams) -> bool {
    let &SamplingParams { temperature, dynatemp_range, ref order, .. } = params;
    let alone = SamplingParams { temperature, dynatemp_range, order: order.clone(), ..Default::default() };
    alone.validate().is_err_and(|error| error.field() == "order")
}
