//! The stages of llama.cpp's chain: the fields that each reads, their defaults, and when a stage is off.

use crate::params::chain::Stage;
use crate::params::error::ParamError;
use crate::params::import::fields::{Fields, saturated};
use crate::params::import::off::{Field, Off};
use crate::params::{PenaltyScope, SamplingParams};

/// llama.cpp's defaults.
const TEMPERATURE: f64 = 0.8;
const TOP_K: i64 = 40;
const TOP_P: f64 = 0.95;
const MIN_P: f64 = 0.05;

/// Reads the fields of one stage into the parameters.
type Reader = fn(&mut Fields, &mut SamplingParams) -> Result<(), ParamError>;

pub(super) const DYNATEMP: Field = ("dynatemp_range", Off::Zero);
pub(super) const DYNATEMP_EXPONENT: Field = ("dynatemp_exponent", Off::Alone);

/// Each stage of the chain, the fields that only it looks at, with the values that have no effect, and the
/// function that reads them. A default counts as having no effect, because it says no more than an absent
/// field.
pub(super) const ALL: [(Stage, &[Field], Reader); 10] = [
    (
        Stage::Penalties,
        &[
            ("repeat_penalty", Off::At(1.0)),
            ("frequency_penalty", Off::Zero),
            ("presence_penalty", Off::Zero),
            ("repeat_last_n", Off::Alone),
        ],
        penalties,
    ),
    (
        Stage::Dry,
        &[
            ("dry_multiplier", Off::Zero),
            ("dry_base", Off::Alone),
            ("dry_allowed_length", Off::Alone),
            ("dry_penalty_last_n", Off::Alone),
            ("dry_sequence_breakers", Off::Alone),
        ],
        dry,
    ),
    (Stage::TopNSigma, &[("top_n_sigma", Off::In(&[-1.0, 0.0]))], top_n_sigma),
    (Stage::TopK, &[("top_k", Off::In(&[-1.0, 0.0, TOP_K as f64]))], top_k),
    (Stage::Typical, &[("typical_p", Off::At(1.0))], typical),
    (Stage::TopP, &[("top_p", Off::In(&[1.0, TOP_P]))], top_p),
    (Stage::MinP, &[("min_p", Off::In(&[0.0, MIN_P]))], min_p),
    (Stage::Xtc, &[("xtc_probability", Off::Zero), ("xtc_threshold", Off::Alone)], xtc),
    (
        Stage::Temperature,
        &[("temperature", Off::In(&[1.0, TEMPERATURE])), DYNATEMP, DYNATEMP_EXPONENT],
        temperature,
    ),
    // Most files have tau and eta; without mirostat they are not meant.
    (Stage::Mirostat, &[("mirostat_tau", Off::Alone), ("mirostat_eta", Off::Alone)], mirostat),
];

/// Takes a number; if it is absent, llama.cpp's default, with a note.
fn number_or(fields: &mut Fields, name: &str, default: f64) -> Result<f64, ParamError> {
    let number = fields.number(name)?;
    if number.is_none() {
        fields.changed(name, format!("absent: llama.cpp's default {default}"));
    }
    Ok(number.unwrap_or(default))
}

/// The number, clamped to its range as llama.cpp does it, with a note if that changes it.
fn clamped(fields: &mut Fields, name: &str, number: f64, low: f64, high: f64) -> f64 {
    let taken = number.clamp(low, high);
    if taken != number {
        fields.changed(name, format!("{number} is taken as {taken}, as llama.cpp does"));
    }
    taken
}

/// Takes how many tokens a stage looks back; in the result 0 means all of them. `None` if the stage is off.
fn last_n(fields: &mut Fields, name: &str, what: &str) -> Result<Option<u32>, ParamError> {
    const DEFAULT: u32 = 64;
    Ok(match fields.integer(name)? {
        None => {
            fields.changed(name, format!("absent: llama.cpp's default {DEFAULT}"));
            Some(DEFAULT)
        }
        Some(0) => {
            fields.changed(name, format!("0 turns {what} off"));
            None
        }
        Some(-1) => {
            fields.changed(name, "-1 is the whole context, as in older versions of llama.cpp");
            Some(0)
        }
        Some(n) if n < 0 => {
            return Err(ParamError::new(name, format!("must be at least 0, or -1 for all, not {n}")));
        }
        Some(n) => Some(saturated(n)),
    })
}

fn penalties(fields: &mut Fields, params: &mut SamplingParams) -> Result<(), ParamError> {
    let repeat = fields.number("repeat_penalty")?.unwrap_or(1.0);
    let frequency = fields.number("frequency_penalty")?.unwrap_or(0.0);
    let presence = fields.number("presence_penalty")?.unwrap_or(0.0);
    if (repeat, frequency, presence) == (1.0, 0.0, 0.0) {
        fields.take("repeat_last_n");
        return Ok(());
    }
    if let Some(window) = last_n(fields, "repeat_last_n", "the penalties")? {
        params.repetition_penalty = repeat;
        params.frequency_penalty = frequency;
        params.presence_penalty = presence;
        params.penalty_window = window;
        // llama.cpp's window covers the prompt too.
        params.penalty_scope = PenaltyScope::All;
    }
    Ok(())
}

fn dry(fields: &mut Fields, params: &mut SamplingParams) -> Result<(), ParamError> {
    let multiplier = fields.number("dry_multiplier")?.unwrap_or(0.0);
    if multiplier < 0.0 {
        fields.lost("dry_multiplier", format!("{multiplier} would reward repetitions; DRY is off"));
    }
    let base = fields.number("dry_base")?;
    let allowed_length = fields.count("dry_allowed_length")?;
    let breakers = fields.strings("dry_sequence_breakers")?;
    if multiplier <= 0.0 {
        fields.take("dry_penalty_last_n");
        return Ok(());
    }
    let Some(window) = last_n(fields, "dry_penalty_last_n", "DRY")? else { return Ok(()) };
    params.dry_multiplier = multiplier;
    params.dry_penalty_last_n = window;
    match base {
        Some(base) if base < 1.0 => {
            let message = format!("{base} is below 1: llama.cpp's default {}", params.dry_base);
            fields.changed("dry_base", message);
        }
        base => params.dry_base = base.unwrap_or(params.dry_base),
    }
    params.dry_allowed_length = allowed_length.unwrap_or(params.dry_allowed_length);
    const NEED: &str = "strings need a tokenizer; give dry_sequence_breakers as token ids";
    match breakers {
        Some(breakers) if breakers.is_empty() => {}
        Some(_) => fields.lost("dry_sequence_breakers", NEED),
        None => {
            let default = r#"absent: llama.cpp's default "\n", ":", "\"", "*""#;
            fields.lost("dry_sequence_breakers", format!("{default}: {NEED}"));
        }
    }
    Ok(())
}

fn top_n_sigma(fields: &mut Fields, params: &mut SamplingParams) -> Result<(), ParamError> {
    params.top_n_sigma = fields.number("top_n_sigma")?.unwrap_or(0.0).max(0.0);
    Ok(())
}

fn top_k(fields: &mut Fields, params: &mut SamplingParams) -> Result<(), ParamError> {
    params.top_k = match fields.integer("top_k")? {
        Some(top_k) => top_k.clamp(0, i64::MAX.into()) as i64,
        None => {
            fields.changed("top_k", format!("absent: llama.cpp's default {TOP_K}"));
            TOP_K
        }
    };
    Ok(())
}

fn typical(fields: &mut Fields, params: &mut SamplingParams) -> Result<(), ParamError> {
    // 1 or more turns it off.
    let typical_p = fields.number("typical_p")?.unwrap_or(1.0).min(1.0);
    params.typical_p = if typical_p <= 0.0 { fields.first_alone("typical_p") } else { typical_p };
    Ok(())
}

fn top_p(fields: &mut Fields, params: &mut SamplingParams) -> Result<(), ParamError> {
    let top_p = number_or(fields, "top_p", TOP_P)?;
    params.top_p = clamped(fields, "top_p", top_p, 0.0, 1.0);
    Ok(())
}

fn min_p(fields: &mut Fields, params: &mut SamplingParams) -> Result<(), ParamError> {
    let min_p = number_or(fields, "min_p", MIN_P)?;
    params.min_p = clamped(fields, "min_p", min_p, 0.0, 1.0);
    Ok(())
}

fn xtc(fields: &mut Fields, params: &mut SamplingParams) -> Result<(), ParamError> {
    let probability = fields.number("xtc_probability")?.unwrap_or(0.0);
    let probability = clamped(fields, "xtc_probability", probability, 0.0, 1.0);
    let threshold = fields.number("xtc_threshold")?.unwrap_or(params.xtc_threshold);
    if probability == 0.0 {
        return Ok(());
    }
    let threshold = clamped(fields, "xtc_threshold", threshold, 0.0, 1.0);
    if threshold > 0.5 {
        fields.changed("xtc_threshold", "above 0.5 turns XTC off");
        return Ok(());
    }
    (params.xtc_probability, params.xtc_threshold) = (probability, threshold);
    Ok(())
}

fn temperature(fields: &mut Fields, params: &mut SamplingParams) -> Result<(), ParamError> {
    let temperature = number_or(fields, "temperature", TEMPERATURE)?;
    params.temperature = clamped(fields, "temperature", temperature, 0.0, f64::INFINITY);
    let range = fields.number("dynatemp_range")?.unwrap_or(0.0);
    let exponent = fields.number("dynatemp_exponent")?;
    if range > 0.0 {
        params.dynatemp_range = range;
        params.dynatemp_exponent = exponent.unwrap_or(params.dynatemp_exponent);
    }
    Ok(())
}

fn mirostat(fields: &mut Fields, params: &mut SamplingParams) -> Result<(), ParamError> {
    params.mirostat_tau = fields.number("mirostat_tau")?.unwrap_or(params.mirostat_tau);
    params.mirostat_eta = fields.number("mirostat_eta")?.unwrap_or(params.mirostat_eta);
    Ok(())
}
