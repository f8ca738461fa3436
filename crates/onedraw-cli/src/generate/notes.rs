//! What somebody should know about a text although nothing is wrong: on standard error, a line each.

use std::io::{self, IsTerminal, Write};

use anyhow::{Result, bail};
use onedraw::{Constraint, FinishReason, SamplingParams};
use onedraw_grammar::Matcher;
use onedraw_lm::LanguageModel;
use onedraw_lm::words::unmatchable;

use super::arguments::Arguments;
use super::request::{Format, Request};
use crate::exit::note;
use crate::flags::unused;
use crate::model::Model;

/// Says what of the settings will have no effect.
pub(super) fn before(arguments: &Arguments, model: &Model, params: &SamplingParams) -> Result<()> {
    for text in &model.generation.notes {
        note(&format!("generation_config.json: {text}"));
    }
    let given = &arguments.parameters;
    if arguments.beams.is_asked() {
        if let Some(name) = given.given_among(&["logprobs", "prompt_logprobs"])?.first() {
            bail!("{name}: beams report the logprob of a whole text alone");
        }
        unused::by_beams(given, arguments.beams.is_stochastic(), None)?;
        unused::reports(given, "a text of beams", "only the whole text has a logprob")?;
    } else if arguments.format == Format::Text {
        unused::reports(given, "text", "--format json shows it")?;
    } else if params.logprobs.is_none() && params.prompt_logprobs.is_none() {
        let unused = given.given_among(&["logprobs_mode"])?;
        unused.iter().for_each(|name| note(&format!("{name} has no effect without --logprobs")));
    }
    let tokens = u32::try_from(model.llama.vocabulary()).unwrap_or(u32::MAX);
    for text in unmatchable(params, &*model.tokenizer, tokens) {
        note(&format!("the stop string {text:?} can never match: the model has no token for a part of it"));
    }
    Ok(())
}

/// A text that has ended: its number, its tokens, and why it ended.
pub(super) struct Ended<'a> {
    pub(super) number: usize,
    pub(super) tokens: &'a [u32],
    pub(super) finish: Option<FinishReason>,
}

/// Says which texts ended before they were complete.
pub(super) fn after(request: &Request<'_>, texts: &[Ended<'_>], constraint: Option<&Matcher>) -> Result<()> {
    for text in texts.iter().filter(|text| text.finish == Some(FinishReason::Length)) {
        let which = if texts.len() > 1 { format!("text {}", text.number + 1) } else { "the text".to_owned() };
        let (written, most) = (text.tokens.len(), request.params.max_tokens as usize);
        if written < most {
            let context = request.context;
            note(&format!("{which} ended at the end of the model's context of {context} tokens"));
        }
        if let Some(constraint) = constraint
            && !is_complete(constraint, text.tokens)?
        {
            note(&format!("{which} ended after {written} tokens in the middle of what it must match"));
        }
    }
    Ok(())
}

/// Whether a text is one that the constraint lets end.
fn is_complete(constraint: &Matcher, tokens: &[u32]) -> Result<bool> {
    let mut matcher = constraint.clone();
    for &token in tokens {
        matcher.accept(token)?;
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
