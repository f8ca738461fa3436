//! What somebody should know about a text although nothing is wrong: on standard error, a line each.

use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use onedraw::{Constraint, FinishReason, STAGE_FIELDS, SamplingParams, Stage};
use onedraw_grammar::Matcher;
use onedraw_lm::words::unmatchable;
use onedraw_lm::{Generated, LanguageModel};

use super::arguments::Arguments;
use super::request::{Format, Request};
use crate::exit::note;
use crate::model::Model;

/// What is reported of each token, which only JSON has room for.
const REPORTS: [&str; 4] = ["logprobs", "prompt_logprobs", "logprobs_mode", "probability"];

/// Says what of the settings will have no effect.
pub(super) fn before(arguments: &Arguments, model: &Model, params: &SamplingParams) -> Result<()> {
    for text in &model.generation.notes {
        note(&format!("generation_config.json: {text}"));
    }
    let given = &arguments.parameters;
    if arguments.beams.is_asked() {
        let mut unused = given.given_among(&unused_by_beams(arguments.beams.is_stochastic()))?;
        if given.has_preset() && !arguments.beams.is_stochastic() {
            unused.push("--preset but for its repetition_penalty".to_owned());
        }
        if !unused.is_empty() {
            note(&format!("beams make no use of {}", unused.join(", ")));
        }
    } else if arguments.format == Format::Text {
        let unused = given.given_among(&REPORTS)?;
        if !unused.is_empty() {
            note(&format!("text has no place for {}: --format json shows it", unused.join(", ")));
        }
    }
    let tokens = u32::try_from(model.llama.vocabulary()).unwrap_or(u32::MAX);
    for text in unmatchable(params, &*model.tokenizer, tokens) {
        note(&format!("the stop string {text:?} can never match: the model has no token for a part of it"));
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
    fields.chain(["seed", "probability"]).collect()
}

/// Says which texts ended before they were complete.
pub(super) fn after(request: &Request<'_>, texts: &[Generated], constraint: Option<&Matcher>) -> Result<()> {
    for text in texts.iter().filter(|text| text.finish == Some(FinishReason::Length)) {
        let which = if texts.len() > 1 { format!("text {}", text.sample + 1) } else { "the text".to_owned() };
        let (written, most) = (text.tokens.len(), request.params.max_tokens as usize);
        if written < most {
            let context = request.context;
            note(&format!("{which} ended at the end of the model's context of {context} tokens"));
        }
        if let Some(constraint) = constraint
            && !is_complete(constraint, text)?
        {
            note(&format!("{which} ended after {written} tokens in the middle of what it must match"));
        }
    }
    Ok(())
}

/// Whether a text is one that the constraint lets end.
fn is_complete(constraint: &Matcher, text: &Generated) -> Result<bool> {
    let mut matcher = constraint.clone();
    for sampled in &text.tokens {
        matcher.accept(sampled.token)?;
    }
    Ok(matcher.may_end()?)
}

/// Says to somebody at a terminal how to have a text again whose seed came from the system.
pub(super) fn seed(request: &Request<'_>, seed: u64) -> io::Result<()> {
    let mut terminal = io::stderr();
    if request.params.seed.is_none() && request.format == Format::Text && terminal.is_terminal() {
        writeln!(terminal, "seed {seed}: --seed {seed} writes the same again")?;
    }
    Ok(())
}
