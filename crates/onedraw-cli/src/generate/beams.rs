//! The best texts, or texts drawn without replacement: `--beams`.

use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result};
use onedraw::beam::{Drawn, Hypothesis};
use onedraw::{Constraint, Finish, FinishReason, RowError, SamplingParams};
use onedraw_grammar::Matcher;
use onedraw_lm::trace::{NotReplayable, Trace};
use onedraw_lm::{Beams, Found, GenerateError, LanguageModel, Tracer};
use serde_json::{Value, json};

use super::notes::{self, Ended};
use super::request::{Format, Request};
use crate::exit::{DONE, ROW_FAILED};
use crate::flags::beams::{BeamFlags, named};

/// Searches, writes the texts that were found, and gives the exit code.
pub fn write<M: LanguageModel>(
    flags: &BeamFlags,
    model: &M,
    request: &Request<'_>,
    constraint: Option<&Matcher>,
    tracer: Option<Tracer<'static>>,
    out: &mut impl Write,
) -> Result<u8> {
    let begun = Instant::now();
    let mut beams = Beams::new(model, request.tokenizer).kernel(request.kernel);
    if let Some(constraint) = constraint {
        beams = beams.constrained(constraint);
    }
    let params: SamplingParams = request.params.clone();
    let found = match flags.is_stochastic() {
        false => beams
            .search(request.prompt, params, flags.params())
            .map(|found| (found.into_iter().map(searched).collect::<Vec<_>>(), None)),
        true => beams
            .draw(request.prompt, params, flags.params().width)
            .map(|(drawn, seed)| (drawn.into_iter().map(drawn_text).collect(), Some(seed))),
    };
    let (texts, seed) = match found {
        Ok(found) => found,
        // A row could not be searched, although nothing that was asked for is wrong.
        Err(GenerateError::Row(error)) if !matches!(error, RowError::OutsideVocabulary { .. }) => {
            writeln!(std::io::stderr(), "error: {error}")?;
            return Ok(ROW_FAILED);
        }
        Err(error) => return Err(named(error)),
    };
    let seconds = begun.elapsed().as_secs_f64();
    if let Some(mut tracer) = tracer {
        for (number, text) in texts.iter().enumerate() {
            let prompt_token_ids = request.prompt.to_vec();
            let params = SamplingParams { prompt_token_ids, seed, ..request.params.clone() };
            let trace = Trace {
                output_token_ids: text.tokens.clone(),
                finish_reason: text.finish,
                not_replayable: Some(NotReplayable::Beams),
                constraint: constraint.and_then(Constraint::source),
                logprobs: None,
                kept: None,
                ..tracer.opened(params, number as u32)
            };
            tracer.write(&trace).context("--trace")?;
        }
        tracer.flush().context("--trace")?;
    }
    for (number, text) in texts.iter().enumerate() {
        match request.format {
            Format::Json => {
                let mut line = text.line.clone();
                if texts.len() > 1 {
                    line["sample"] = number.into();
                }
                line["seed"] = seed.map_or(Value::Null, Value::from);
                line["timings"] = json!({ "prompt_tokens": request.prompt.len(), "seconds": seconds });
                writeln!(out, "{line}")?;
            }
            Format::Text if texts.len() == 1 => writeln!(out, "{}{}", request.heading, text.text)?,
            Format::Text => {
                writeln!(out, "--- {}: {} ---\n{}{}", number + 1, text.worth, request.heading, text.text)?
            }
        }
    }
    out.flush()?;
    let ended = texts.iter().enumerate().map(|(number, text)| Ended {
        number,
        tokens: &text.tokens,
        finish: text.finish,
    });
    notes::after(request, &ended.collect::<Vec<_>>(), constraint)?;
    if request.stats {
        let written: usize = texts.iter().map(|text| text.tokens.len()).sum();
        let drawn = seed.filter(|_| request.params.seed.is_none());
        let drawn = drawn.map_or(String::new(), |seed| format!("; seed {seed}"));
        let count = texts.len();
        writeln!(std::io::stderr(), "{count} texts of {written} tokens in {seconds:.2} seconds{drawn}")?;
    } else if let Some(seed) = seed {
        notes::seed(request, seed)?;
    }
    Ok(DONE)
}

/// A text to be shown.
struct Shown {
    text: String,
    worth: String,
    tokens: Vec<u32>,
    finish: Option<FinishReason>,
    line: Value,
}

fn searched(Found { text, hypothesis }: Found<Hypothesis>) -> Shown {
    let Hypothesis { tokens, score, logprob, finish } = hypothesis;
    let finish = finish.map(Finish::reason);
    let line = json!({
        "text": text, "tokens": tokens, "finish_reason": finish, "score": score, "logprob": logprob,
    });
    Shown { text, worth: format!("score {score:.4}"), tokens, finish, line }
}

fn drawn_text(Found { text, hypothesis }: Found<Drawn>) -> Shown {
    let Drawn { tokens, logprob, perturbed, inclusion, finish } = hypothesis;
    let finish = finish.map(Finish::reason);
    let line = json!({
        "text": text, "tokens": tokens, "finish_reason": finish, "logprob": logprob,
        "perturbed": perturbed, "inclusion": inclusion,
    });
    Shown { text, worth: format!("logprob {logprob:.2}"), tokens, finish, line }
}
