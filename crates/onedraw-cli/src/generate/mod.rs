//! `onedraw generate`: text from a prompt.

mod arguments;
mod beams;
mod notes;
mod request;
mod show;

use std::io::{IsTerminal, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, anyhow, bail};
use indicatif::ProgressBar;
use onedraw::SamplingParams;
use onedraw_grammar::Matcher;
use onedraw_lm::generate::Texts;
use onedraw_lm::settings::Settings;
use onedraw_lm::{Generator, LanguageModel, Tracer, stories};

use crate::exit::{DONE, ROW_FAILED};
use crate::flags::contrast::{Counterpart, with_counterpart};
use crate::model::{Model, bar};

pub use arguments::Arguments;
use notes::Ended;
pub use request::Format;
use request::Request;

/// The parameters that hold without any argument: the embedded model's.
pub(crate) fn defaults() -> SamplingParams {
    let settings = Settings::default();
    let model = stories::generation_config().unwrap_or_default();
    settings.layer(model.layer()).resolve().map(|resolved| resolved.params).unwrap_or_default()
}

/// Writes texts and gives the exit code.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8> {
    let model = Model::open(&arguments.model)?;
    let Model { llama, tokenizer, generation, .. } = &model;
    let mut params = arguments.parameters.params(&generation.params)?;
    generation.end_texts(&mut params);
    arguments.parameters.cut(&mut params, tokenizer)?;
    let text = prompt(arguments)?;
    let prompt = match arguments.chat {
        true => tokenizer.encode_plain(&model.chat(arguments.system.as_deref(), &text)?)?,
        false => tokenizer.encode(&text)?,
    };
    if prompt.is_empty() {
        bail!("the prompt is empty, and the model has no token that begins a text");
    }
    if arguments.parameters.given("max_tokens")?.is_none() {
        generation.limit(&mut params, prompt.len());
    }
    notes::before(arguments, &model, &params)?;
    let constraint = arguments.constraint.matcher(&model, &params)?;
    let request = Request {
        prompt: &prompt,
        heading: if arguments.chat { "" } else { &text },
        params,
        tokenizer,
        kernel: arguments.model.kernel,
        format: arguments.format,
        stats: arguments.stats,
        context: llama.context(),
        speculation_log: arguments.speculation.speculation_log.as_deref(),
    };
    let constraint = constraint.as_ref();
    let counterpart = arguments.contrast.counterpart(&model, prompt.len())?;
    let tracer = tracer(arguments, &model, &counterpart)?;
    if arguments.speculation.is_asked() {
        if arguments.beams.is_asked() || !matches!(counterpart, Counterpart::None) {
            bail!(
                "guesses (--draft, --early-exit, --eagle, --ngram) go with one model that draws: not with --beams, --contrast, --guidance or --dola"
            );
        }
        let guesser = arguments.speculation.guesser(&model)?;
        let generator = Generator::new(llama, request.tokenizer).kernel(request.kernel);
        let mut generator = arguments.speculation.with(generator, llama, &guesser)?;
        if let Some(tracer) = tracer {
            generator = generator.trace(tracer);
        }
        return write_texts(generator, &request, constraint, out);
    }
    with_counterpart!(llama, counterpart, |model| write_with(
        model, arguments, &request, constraint, tracer, out
    ))
}

/// Opens the file of `--trace`.
fn tracer(
    arguments: &Arguments,
    model: &Model,
    counterpart: &Counterpart<'_>,
) -> Result<Option<Tracer<'static>>> {
    let Some(path) = &arguments.trace else { return Ok(None) };
    let tracer = Tracer::append(path, model.llama.sha256(), model.tokenizer.sha256());
    let tracer = tracer.map_err(|error| anyhow!("--trace {}: {error}", path.display()))?;
    Ok(Some(tracer.contrasted(arguments.contrast.traced(model, counterpart)?)))
}

/// Writes texts with a model, which may be made of two.
fn write_with<M: LanguageModel>(
    model: &M,
    arguments: &Arguments,
    request: &Request<'_>,
    constraint: Option<&Matcher>,
    tracer: Option<Tracer<'static>>,
    out: &mut impl Write,
) -> Result<u8> {
    if arguments.beams.is_asked() {
        return beams::write(&arguments.beams, model, request, constraint, tracer, out);
    }
    let mut generator = Generator::new(model, request.tokenizer).kernel(request.kernel);
    if let Some(tracer) = tracer {
        generator = generator.trace(tracer);
    }
    write_texts(generator, request, constraint, out)
}

/// Draws texts, and shows a single one while it is written.
fn write_texts<M: LanguageModel>(
    mut generator: Generator<'_, M>,
    request: &Request<'_>,
    constraint: Option<&Matcher>,
    out: &mut impl Write,
) -> Result<u8> {
    let &Request { prompt, heading, ref params, format, stats, .. } = request;
    let id = match constraint {
        Some(constraint) => generator.add_constrained(prompt, params.clone(), constraint)?,
        None => generator.add(prompt, params.clone())?,
    };
    let seed = generator.seed(id).unwrap_or_default();
    let streams = format == Format::Text && params.n == 1;
    let interrupted = interruption()?;
    let bar = progress(prompt.len());
    // The heading is written with the first token, once the progress bar is gone.
    let mut before = streams.then_some(heading);
    let mut texts = Texts::default();
    while !generator.is_done() {
        let events = match interrupted.load(Ordering::Relaxed) {
            true => generator.cancel_all(),
            false => generator.step()?,
        };
        bar.set_position((prompt.len() - generator.waiting().min(prompt.len())) as u64);
        if !events.is_empty() {
            bar.finish_and_clear();
        }
        for event in events {
            if streams {
                write!(out, "{}{}", before.take().unwrap_or_default(), event.text)?;
                out.flush()?;
            }
            texts.push(event);
        }
    }
    generator.flush_trace()?;
    if let Some(path) = request.speculation_log {
        show::log(path, generator.speculation_log())
            .map_err(|error| anyhow!("--speculation-log {}: {error}", path.display()))?;
    }
    let timings = generator.timings();
    let texts = texts.into_generated();
    let mut code = DONE;
    for text in &texts {
        if let Some(error) = &text.error {
            writeln!(std::io::stderr(), "error: text {}: {error}", text.sample)?;
            code = ROW_FAILED;
        }
    }
    match format {
        Format::Text if streams => writeln!(out)?,
        Format::Text => show::texts(out, heading, &texts)?,
        Format::Json => show::lines(out, &texts, seed, &timings, generator.guessed())?,
    }
    out.flush()?;
    let tokens: Vec<Vec<u32>> =
        texts.iter().map(|text| text.tokens.iter().map(|sampled| sampled.token).collect()).collect();
    let ended = texts.iter().zip(&tokens).map(|(text, tokens)| Ended {
        number: text.sample,
        tokens,
        finish: text.finish,
    });
    notes::after(request, &ended.collect::<Vec<_>>(), constraint)?;
    if stats {
        let written = texts.iter().map(|text| text.tokens.len()).sum();
        let drawn = if params.seed.is_none() { format!("; seed {seed}") } else { String::new() };
        writeln!(std::io::stderr(), "{}{drawn}", show::stats(&timings, written))?;
        if let Some(guessed) = generator.guessed() {
            writeln!(std::io::stderr(), "{}", show::guesses(guessed, &timings))?;
        }
    } else {
        notes::seed(request, seed)?;
    }
    Ok(code)
}

/// The prompt as it was given. A shell ends standard input with a line end, which is not part of the prompt.
fn prompt(arguments: &Arguments) -> Result<String> {
    if let Some(prompt) = &arguments.prompt {
        return Ok(prompt.clone());
    }
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| anyhow!("standard input cannot be read: {error}"))?;
    let end = text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text)).map(str::len);
    text.truncate(end.unwrap_or(text.len()));
    Ok(text)
}

/// A flag that is set when Ctrl-C is pressed. If it is pressed again while a long pass runs, the program ends
/// at once.
fn interruption() -> Result<Arc<AtomicBool>> {
    /// The exit code that shells use for a program that an interrupt ended.
    const INTERRUPTED: i32 = 130;
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = interrupted.clone();
    let handler = move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
        }
    };
    match ctrlc::set_handler(handler) {
        // Several runs in one process, as in tests, share the handler of the first.
        Ok(()) | Err(ctrlc::Error::MultipleHandlers) => Ok(interrupted),
        Err(error) => Err(anyhow!("Ctrl-C cannot be watched: {error}")),
    }
}

/// A progress bar while a long prompt is read, if standard error is a terminal.
fn progress(positions: usize) -> ProgressBar {
    /// The tokens from which a prompt takes long enough to show a bar.
    const LONG: usize = 256;
    if positions < LONG || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    bar(positions, "reading the prompt {bar:40} {pos}/{len}")
}
