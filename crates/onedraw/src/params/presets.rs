//! Four named settings. Each is a plain [`SamplingParams`] to start from.

use crate::params::SamplingParams;

/// The names of the presets.
pub const NAMES: [&str; 4] = ["creative", "precise", "balanced", "deterministic"];

/// Many tokens at a high temperature: for stories and ideas.
pub fn creative() -> SamplingParams {
    preset(1.2, 0.95, 100, 1.1)
}

/// Few tokens at a low temperature: for facts and code.
pub fn precise() -> SamplingParams {
    preset(0.3, 0.9, 20, 1.05)
}

/// Between the two: for conversation.
pub fn balanced() -> SamplingParams {
    preset(0.7, 0.9, 50, 1.0)
}

/// The best token each time, whatever the seed.
pub fn deterministic() -> SamplingParams {
    SamplingParams { temperature: 0.0, ..SamplingParams::default() }
}

/// The preset of that name; `None` if there is none.
pub fn by_name(name: &str) -> Option<SamplingParams> {
    match name {
        "creative" => Some(creative()),
        "precise" => Some(precise()),
        "balanced" => Some(balanced()),
        "deterministic" => Some(deterministic()),
        _ => None,
    }
}

fn preset(temperature: f64, top_p: f64, top_k: i64, repetition_penalty: f64) -> SamplingParams {
    SamplingParams { temperature, top_p, top_k, repetition_penalty, ..SamplingParams::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_preset_has_its_published_values() {
        let values = |name: &str| {
            let p = by_name(name).expect("a preset of that name");
            assert_eq!(p.validate(), Ok(()));
            (p.temperature, p.top_p, p.top_k, p.repetition_penalty)
        };
        assert_eq!(values("creative"), (1.2, 0.95, 100, 1.1));
        assert_eq!(values("precise"), (0.3, 0.9, 20, 1.05));
        assert_eq!(values("balanced"), (0.7, 0.9, 50, 1.0));
        assert_eq!(values("deterministic"), (0.0, 1.0, 0, 1.0));
        assert_eq!(by_name("wild"), None);
        assert!(NAMES.iter().all(|name| by_name(name).is_some()));
    }
}
