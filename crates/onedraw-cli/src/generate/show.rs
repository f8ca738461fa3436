//! Texts as plain text and as JSON.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use onedraw::{Kept, Report, RowError, Sampled, TokenLogprob};
use onedraw_lm::Generated;
use onedraw_lm::generate::Timings;
use onedraw_lm::speculate::{Guessed, PassLog};
use serde::Serialize;
use serde_json::{Value, json};

/// Several texts, each after a line with its number.
pub(super) fn texts(out: &mut impl Write, prompt: &str, texts: &[Generated]) -> io::Result<()> {
    for text in texts {
        writeln!(out, "--- {} ---\n{prompt}{}", text.sample + 1, text.text)?;
    }
    Ok(())
}

/// The logprobs of one token, and the probability with which it was drawn, where that is asked for.
#[derive(Serialize)]
struct Logprobs<'a> {
    token: u32,
    logprob: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    probability: Option<f64>,
    rank: Option<u32>,
    logprobs: &'a [TokenLogprob],
}

/// A line of JSON for each text.
pub(super) fn lines(
    out: &mut impl Write,
    texts: &[Generated],
    seed: u64,
    timings: &Timings,
    guessed: Option<&Guessed>,
) -> io::Result<()> {
    let written: usize = texts.iter().map(|text| text.tokens.len()).sum();
    for text in texts {
        let tokens: Vec<u32> = text.tokens.iter().map(|sampled| sampled.token).collect();
        let mut line = json!({
            "text": text.text,
            "tokens": tokens,
            "finish_reason": text.finish,
            "seed": seed,
        });
        if texts.len() > 1 {
            line["sample"] = text.sample.into();
        }
        // One entry per token; null for a token that a constraint forced, because it was not drawn.
        let logprobs: Vec<Option<Logprobs<'_>>> = text.tokens.iter().map(logprobs).collect();
        if logprobs.iter().any(Option::is_some) {
            line["logprobs"] = serde_json::to_value(logprobs)?;
        }
        let kept: Vec<Option<&Kept>> = text.tokens.iter().map(|sampled| sampled.kept.as_ref()).collect();
        if kept.iter().any(Option::is_some) {
            line["kept"] = serde_json::to_value(kept)?;
        }
        if let Some(prompt) = &text.prompt_logprobs {
            let entries: Vec<Value> = prompt.iter().map(prompt_entry).collect();
            line["prompt_logprobs"] = Value::Array(entries);
        }
        if let Some(error) = &text.error {
            line["error"] = Value::String(error.to_string());
        }
        line["timings"] = json!({
            "prompt_tokens": timings.prompt_tokens,
            "prompt_seconds": timings.prompt_time.as_secs_f64(),
            "output_tokens": written,
            "output_seconds": timings.output_time.as_secs_f64(),
            "sampling_seconds": timings.sampling_time.as_secs_f64(),
        });
        if let Some(guessed) = guessed {
            line["timings"]["draft_seconds"] = timings.draft_time.as_secs_f64().into();
            line["speculation"] = json!({
                "passes": guessed.passes,
                "plain_passes": guessed.plain_passes,
                "tokens": guessed.tokens,
                "guesses": guessed.guesses,
                "judged": guessed.depths.iter().map(|depth| depth.0).collect::<Vec<_>>(),
                "rests": guessed.rests,
                "held": guessed.depths.iter().map(|depth| depth.1).collect::<Vec<_>>(),
            });
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// A token of the prompt: null for the first one, which nothing predicts, or the error of its row.
fn prompt_entry(report: &Result<Option<Report>, RowError>) -> Value {
    match report {
        Ok(None) => Value::Null,
        Ok(Some(Report { token, logprob, rank, logprobs, .. })) => {
            let (logprob, rank) = (Some(*logprob), Some(*rank));
            json!(Logprobs { token: *token, logprob, probability: None, rank, logprobs })
        }
        Err(error) => json!({ "error": error.to_string() }),
    }
}

fn logprobs(sampled: &Sampled) -> Option<Logprobs<'_>> {
    sampled.logprob.or(sampled.probability)?;
    Some(Logprobs {
        token: sampled.token,
        logprob: sampled.logprob,
        probability: sampled.probability,
        rank: sampled.rank,
        logprobs: &sampled.logprobs,
    })
}

/// How fast the texts were written, in one line. They have so many tokens.
pub(super) fn stats(timings: &Timings, written: usize) -> String {
    let rate = |tokens: usize, time: Duration| tokens as f64 / time.as_secs_f64().max(1e-9);
    let prompt = format!(
        "prompt {} tokens, {:.0} a second",
        timings.prompt_tokens,
        rate(timings.prompt_tokens, timings.prompt_time)
    );
    // The first token comes with the prompt's pass, so a text of one token has no rate of output.
    if timings.output_tokens == 0 {
        return format!("{prompt}; output {written} tokens");
    }
    let step = timings.output_time + timings.sampling_time + timings.draft_time;
    let share = 100.0 * timings.sampling_time.as_secs_f64() / step.as_secs_f64().max(1e-9);
    let rate = rate(timings.output_tokens, step);
    format!(
        "{prompt}; output {written} tokens, {rate:.0} a second; sampling {share:.1} % of the output's time"
    )
}

/// A line of JSON for each pass of the target that wrote.
pub(super) fn log(path: &Path, passes: &[PassLog]) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for pass in passes {
        let line = json!({
            "texts": pass.texts,
            "guesses": pass.guesses,
            "expected": pass.expected,
            "tokens": pass.tokens,
            "seconds": pass.time.as_secs_f64(),
            "plain_seconds": pass.plain_time.as_secs_f64(),
            "purse": pass.purse,
        });
        writeln!(file, "{line}")?;
    }
    file.flush()
}

/// How many guesses were right, in one line.
pub(super) fn guesses(guessed: &Guessed, timings: &Timings) -> String {
    let Guessed { passes, plain_passes, guesses, rests, .. } = *guessed;
    if passes == 0 {
        return format!("guesses: none in {plain_passes} passes");
    }
    let (draft, model, draws) = (timings.draft_time, timings.output_time, timings.sampling_time);
    let share = |time: Duration| 100.0 * time.as_secs_f64() / (draft + model + draws).as_secs_f64().max(1e-9);
    let held = guessed
        .depths
        .iter()
        .map(|&(judged, held)| format!("{:.0} % of {judged}", 100.0 * held as f64 / judged as f64));
    format!(
        "guesses: {:.2} tokens a pass of the target with {:.1} guesses ({passes} passes, {plain_passes} more without any, given up {rests} times); held, by depth: {}; time: guessing {:.0} %, the target {:.0} %, draws {:.0} %",
        guessed.tokens_a_pass(),
        guesses as f64 / passes as f64,
        held.collect::<Vec<_>>().join(", "),
        share(draft),
        share(model),
        share(draws),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_are_rates() {
        let timings = Timings {
            prompt_tokens: 100,
            prompt_time: Duration::from_millis(50),
            output_tokens: 99,
            output_time: Duration::from_millis(980),
            sampling_time: Duration::from_millis(20),
            draft_time: Duration::ZERO,
        };
        assert_eq!(
            stats(&timings, 100),
            "prompt 100 tokens, 2000 a second; output 100 tokens, 99 a second; sampling 2.0 % of the output's time"
        );
        let one = Timings { output_tokens: 0, output_time: Duration::ZERO, ..timings };
        assert_eq!(stats(&one, 1), "prompt 100 tokens, 2000 a second; output 1 tokens");
        let timings = Timings { draft_time: Duration::from_millis(1000), ..timings };
        let mut guessed = Guessed { plain_passes: 3, ..Guessed::default() };
        assert_eq!(guesses(&guessed, &timings), "guesses: none in 3 passes");
        (guessed.passes, guessed.tokens, guessed.guesses) = (40, 90, 100);
        guessed.depths = vec![(40, 30), (20, 5)];
        assert_eq!(
            guesses(&guessed, &timings),
            "guesses: 2.25 tokens a pass of the target with 2.5 guesses (40 passes, 3 more without any, given up 0 times); held, by depth: 75 % of 40, 25 % of 20; \
             time: guessing 50 %, the target 49 %, draws 1 %"
        );
    }
}
