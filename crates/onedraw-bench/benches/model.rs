//! How fast a model runs, beside a plain read of its weights in the same run: `bench/model` runs it.
//!
//! The model is a random Llama of 100 million parameters in bf16. A round takes in turn a plain read of the
//! weights that a step reads, and passes of 1, 4 and 8 positions, on the same threads; ratios are taken
//! within a round.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use fearless_simd::Level;
use onedraw::verdict::Verdict;
use onedraw::{Kernel, presets};
use onedraw_bench::floor::bare_maximum;
use onedraw_bench::machine::Machine;
use onedraw_bench::stopwatch::Spread;
use onedraw_lm::audit::Auditor;
use onedraw_lm::trace::Trace;
use onedraw_lm::{Asks, Generator, LanguageModel, Llama, Run, Tokenizer, Tracer, Wanted, stories};
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::json;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// How fast a model runs.
#[derive(Parser)]
struct Arguments {
    /// Where to write the day's table
    #[arg(long)]
    results: Option<PathBuf>,
    /// Three rounds: a look, not a measurement
    #[arg(long)]
    quick: bool,
    /// `cargo bench` adds it
    #[arg(long = "bench", hide = true)]
    _bench: bool,
}

const WIDTH: usize = 768;
const HIDDEN: usize = 2048;
const LAYERS: usize = 12;
const VOCABULARY: usize = 32_000;
const KEYS: usize = 256;

/// Writes config.json and model.safetensors.
fn write_model(folder: &Path) -> Result<()> {
    let config = json!({
        "model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": HIDDEN,
        "num_hidden_layers": LAYERS, "num_attention_heads": WIDTH / 64, "num_key_value_heads": KEYS / 64,
        "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "rope_theta": 1e4,
    });
    std::fs::write(folder.join("config.json"), config.to_string())?;
    let mut shapes = vec![
        ("model.embed_tokens.weight".to_owned(), vec![VOCABULARY, WIDTH]),
        ("model.norm.weight".to_owned(), vec![WIDTH]),
    ];
    for layer in 0..LAYERS {
        let parts: [(&str, &[usize]); 9] = [
            ("input_layernorm", &[WIDTH]),
            ("post_attention_layernorm", &[WIDTH]),
            ("self_attn.q_proj", &[WIDTH, WIDTH]),
            ("self_attn.k_proj", &[KEYS, WIDTH]),
            ("self_attn.v_proj", &[KEYS, WIDTH]),
            ("self_attn.o_proj", &[WIDTH, WIDTH]),
            ("mlp.gate_proj", &[HIDDEN, WIDTH]),
            ("mlp.up_proj", &[HIDDEN, WIDTH]),
            ("mlp.down_proj", &[WIDTH, HIDDEN]),
        ];
        shapes.extend(
            parts.map(|(name, shape)| (format!("model.layers.{layer}.{name}.weight"), shape.to_vec())),
        );
    }
    // Numbers of about 0.02 in size, of both signs: the time does not depend on them, but no number may run
    // away.
    let mut state = 1u64;
    let mut number = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        half::bf16::from_f32(((state >> 40) as f32 / (1 << 23) as f32 - 1.0) * 0.03)
    };
    let tensors: BTreeMap<String, (Vec<usize>, Vec<u8>)> = shapes
        .into_iter()
        .map(|(name, shape)| {
            let count = shape.iter().product();
            (name, (shape, (0..count).flat_map(|_| number().to_le_bytes()).collect()))
        })
        .collect();
    let views = tensors
        .iter()
        .map(|(name, (shape, bytes))| Ok((name, TensorView::new(Dtype::BF16, shape.clone(), bytes)?)));
    let views: Vec<_> = views.collect::<Result<_>>()?;
    safetensors::serialize_to_file(views, None, &folder.join("model.safetensors"))?;
    Ok(())
}

/// The shortest of a few times, in milliseconds: the work is always the same, so what is longer was something
/// else's.
fn shortest(mut work: impl FnMut()) -> f64 {
    const TIMES: usize = 3;
    let times = (0..TIMES).map(|_| {
        let begun = Instant::now();
        work();
        begun.elapsed().as_secs_f64() * 1e3
    });
    times.fold(f64::INFINITY, f64::min)
}

/// A look at one round: a plain read, and passes of so many positions.
struct Round {
    read: f64,
    passes: [f64; 3],
}

const POSITIONS: [usize; 3] = [1, 4, 8];

fn rounds(model: &Llama, threads: usize, count: usize) -> Result<Vec<Round>> {
    /// Bytes that a thread reads at a time.
    const PART: usize = 256 << 10;
    let pool = ThreadPoolBuilder::new().num_threads(threads).build()?;
    let parts: Vec<&[f32]> =
        model.weights().flat_map(|weights| weights.chunks(PART)).map(bytemuck::cast_slice).collect();
    let read = || {
        let largest = |part: &&[f32]| bare_maximum(Level::new(), part);
        pool.install(|| black_box(parts.par_iter().map(largest).reduce(|| 0.0, f32::max)));
    };
    let mut start = model.start();
    let prompt: Vec<u32> = (0..64).map(|i| i * 37 % VOCABULARY as u32).collect();
    model.forward(&mut [Run::line(&mut start, &prompt)])?;
    let pass = |positions: usize| {
        let mut sequence = start.clone();
        let asks = Asks { logits: Wanted::All, ..Asks::default() };
        let run = Run { asks, ..Run::line(&mut sequence, &prompt[..positions]) };
        black_box(model.forward(&mut [run]).is_ok());
    };
    let round =
        || Round { read: shortest(read), passes: POSITIONS.map(|positions| shortest(|| pass(positions))) };
    // The first brings the weights into memory.
    round();
    Ok((0..count).map(|_| round()).collect())
}

/// Tokens a second, and the share of sampling in the time of a step.
fn decode(model: &Llama, tokenizer: &Tokenizer) -> Result<(f64, f64)> {
    let mut params = presets::balanced();
    (params.seed, params.max_tokens) = (Some(7), 200);
    let mut generator = Generator::new(model, tokenizer);
    generator.add(&[1, 2, 3], params)?;
    generator.finish()?;
    let timings = generator.timings();
    let (output, sampling) = (timings.output_time.as_secs_f64(), timings.sampling_time.as_secs_f64());
    Ok((timings.output_tokens as f64 / (output + sampling), 100.0 * sampling / (output + sampling)))
}

/// A text written, the same positions in one pass, and its audit, in milliseconds.
struct Audited {
    written: f64,
    pass: f64,
    audit: f64,
    /// The audit with every second token replaced.
    other: f64,
}

fn audited(model: &Llama, tokenizer: &Tokenizer) -> Result<Audited> {
    let mut params = presets::balanced();
    (params.seed, params.max_tokens) = (Some(7), 200);
    let prompt = [1, 2, 3];
    let mut trace = Vec::new();
    let begun = Instant::now();
    let tracer = Tracer::new(&mut trace, "", tokenizer.sha256());
    let mut generator = Generator::new(model, tokenizer).trace(tracer);
    generator.add(&prompt, params)?;
    let texts = generator.finish()?;
    let written = begun.elapsed().as_secs_f64() * 1e3;
    drop(generator);
    let trace = Trace::parse(std::str::from_utf8(&trace)?)?;
    let tokens: Vec<u32> = texts.iter().flat_map(|text| &text.tokens).map(|sampled| sampled.token).collect();
    let read = [&prompt[..], &tokens[..tokens.len() - 1]].concat();
    let pass = shortest(|| {
        let asks = Asks { logits: Wanted::Tail(tokens.len()), ..Asks::default() };
        let mut sequence = model.start();
        black_box(model.forward(&mut [Run { asks, ..Run::line(&mut sequence, &read) }]).is_ok());
    });
    let auditor = Auditor::new(model, tokenizer);
    let verdict = |trace: &Trace| auditor.audit(trace, None).map(|audit| audit.judgement.verdict).ok();
    let mut found = None;
    let audit = shortest(|| found = verdict(&trace));
    // A wrong answer is no measurement.
    assert_eq!(found, Some(Verdict::Same));
    let mut changed = trace.clone();
    for token in changed.output_token_ids.iter_mut().step_by(2) {
        *token = (*token + 1) % model.vocabulary() as u32;
    }
    let other = shortest(|| found = verdict(&changed));
    assert_eq!(found, Some(Verdict::Other));
    Ok(Audited { written, pass, audit, other })
}

fn judged(Spread { value, low, high }: Spread, holds: bool, target: &str) -> String {
    format!("{value:.2} ({low:.2}–{high:.2}) {target} {}", if holds { "✓" } else { "✗" })
}

fn report(quick: bool) -> Result<String> {
    let folder = tempfile::tempdir()?;
    write_model(folder.path())?;
    let Machine { cpu, cores, caches, kernel, onedraw, date } = Machine::here(Kernel::Auto);
    let mut text = String::new();
    writeln!(text, "# {date}: a model\n")?;
    let cpu = cpu.unwrap_or_else(|| "an unknown processor".to_owned());
    writeln!(text, "onedraw {onedraw} with {kernel} on {cpu}, {cores} cores, {}.", caches.join(", "))?;
    writeln!(
        text,
        "A random Llama of 100 million parameters in bf16; median of the rounds (lowest–highest). The plain read is a max-scan of the same bytes in the same \
         mapped file on the same threads.\n"
    )?;
    writeln!(
        text,
        "| threads | plain read | one position | of the plain read's bandwidth | 4 positions, of one | 8 positions, of one |"
    )?;
    writeln!(text, "|---:|---:|---:|---:|---:|---:|")?;
    let tokenizer = stories::tokenizer()?;
    let (mut decoding, mut auditing) = (String::new(), String::new());
    let mut counts = vec![1, cores];
    counts.dedup();
    for threads in counts {
        let model = Llama::open(folder.path())?.on(Kernel::Auto, threads)?;
        let gigabytes = model.weights().map(<[u8]>::len).sum::<usize>() as f64 / 1e9;
        let rounds = rounds(&model, threads, if quick { 3 } else { 25 })?;
        let spread = |of: fn(&Round) -> f64| Spread::of(rounds.iter().map(of));
        let (read, one) = (spread(|round| round.read), spread(|round| round.passes[0]));
        let bandwidth = spread(|round| round.read / round.passes[0]);
        let (four, eight) = (
            spread(|round| round.passes[1] / round.passes[0]),
            spread(|round| round.passes[2] / round.passes[0]),
        );
        let rate = |time: f64| format!("{time:.1} ms, {:.1} GB/s", gigabytes / time * 1e3);
        writeln!(
            text,
            "| {threads} | {} | {} | {} | {} | {} |",
            rate(read.value),
            rate(one.value),
            judged(bandwidth, bandwidth.value >= 0.6, "≥ 0.6"),
            judged(four, four.value <= 1.5, "≤ 1.5"),
            judged(eight, eight.value <= 2.2, "≤ 2.2"),
        )?;
        let stories = stories::model()?.on(Kernel::Auto, threads)?;
        for (name, model) in [("100 million", &model), ("stories, 5.8 million", &stories)] {
            let (mut rates, mut shares) = (Vec::new(), Vec::new());
            for _ in 0..if quick { 1 } else { 5 } {
                let (rate, share) = decode(model, &tokenizer)?;
                rates.push(rate);
                shares.push(share);
            }
            let (rate, share) = (Spread::of(rates.into_iter()), Spread::of(shares.into_iter()));
            writeln!(
                decoding,
                "| {name} | {threads} | {:.0} ({:.0}–{:.0}) | {} |",
                rate.value,
                rate.low,
                rate.high,
                judged(share, share.value < 3.0, "< 3"),
            )?;
            let looks: Vec<Audited> =
                (0..if quick { 1 } else { 7 }).map(|_| audited(model, &tokenizer)).collect::<Result<_>>()?;
            let spread = |of: fn(&Audited) -> f64| Spread::of(looks.iter().map(of));
            let (cost, gain) =
                (spread(|look| look.audit / look.pass), spread(|look| look.written / look.audit));
            let other = spread(|look| look.other / look.pass);
            writeln!(
                auditing,
                "| {name} | {threads} | {:.1} ms | {:.1} ms | {} | {:.2} ({:.2}–{:.2}) | {:.2} ({:.2}–{:.2}) |",
                spread(|look| look.pass).value,
                spread(|look| look.audit).value,
                judged(cost, cost.value <= 1.2, "≤ 1.2"),
                gain.value,
                gain.low,
                gain.high,
                other.value,
                other.low,
                other.high,
            )?;
        }
    }
    writeln!(text, "\nThe decode loop, 200 tokens at `balanced`:\n")?;
    writeln!(
        text,
        "| model | threads | tokens a second | sampling, % of a step |\n|---|---:|---:|---:|\n{decoding}"
    )?;
    writeln!(text, "The audit of such a text, beside one pass over the same positions:\n")?;
    writeln!(
        text,
        "| model | threads | pass | audit | audit, of the pass | writing the text, of the audit | audit with every second token replaced, of the pass |\n|---|---:|---:|---:|---:|---:|---:|\n{auditing}"
    )?;
    Ok(text.trim_end().to_owned() + "\n")
}

fn main() -> Result<()> {
    let Arguments { results, quick, .. } = Arguments::parse();
    let text = report(quick)?;
    print!("{text}");
    if let Some(folder) = results {
        let date = Machine::here(Kernel::Auto).date;
        std::fs::write(folder.join(format!("{date}-model.md")), text)?;
    }
    Ok(())
}
