//! Sampling parameters that were given and have no effect.

use anyhow::Result;
use onedraw::{STAGE_FIELDS, Stage};

use super::parameters::ParameterFlags;
use crate::exit::note;

/// What is reported of each token, which only lines of JSON have room for.
const REPORTS: [&str; 5] = ["logprobs", "prompt_logprobs", "logprobs_mode", "probability", "kept"];

/// Says which of them beams do not use. `who` is the name of a strategy among others.
pub fn by_beams(given: &ParameterFlags, is_stochastic: bool, who: Option<&str>) -> Result<()> {
    let mut names = unused_by_beams(is_stochastic);
    // The seed of a comparison is for the strategies that draw.
    names.retain(|name| who.is_none() || *name != "seed");
    let mut unused = given.given_among(&names)?;
    if given.has_preset() && !is_stochastic {
        unused.push("--preset but for its repetition_penalty".to_owned());
    }
    let who = who.map_or(String::new(), |name| format!("{name}: "));
    if !unused.is_empty() {
        note(&format!("{who}beams make no use of {}", unused.join(", ")));
    }
    Ok(())
}

/// Says which reports on tokens there is no place for. `instead` is where there is one.
pub fn reports(given: &ParameterFlags, place: &str, instead: &str) -> Result<()> {
    let unused = given.given_among(&REPORTS)?;
    if !unused.is_empty() {
        note(&format!("{place} has no place for {}: {instead}", unused.join(", ")));
    }
    Ok(())
}

/// The parameters that a beam search does not use. It draws nothing; stochastic beams do, but show all texts.
fn unused_by_beams(is_stochastic: bool) -> Vec<&'static str> {
    if is_stochastic {
        return vec!["n"];
    }
    let draws = |stage: &Stage| {
        use Stage::*;
        matches!(
            stage,
            Temperature | MinP | TopK | TopP | Typical | TopNSigma | Epsilon | Eta | TopA | Xtc | Mirostat
        )
    };
    let fields = STAGE_FIELDS.iter().filter(|field| draws(&field.stage)).map(|field| field.name);
    fields.chain(["seed"]).collect()
}
