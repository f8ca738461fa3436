//! What guesses gain, beside plain decoding in the same run: `bench/speculation` runs it.
//!
//! Each prompt is written twice in turn, without guesses and with them, 256 tokens each; ratios are taken
//! within a prompt, and both texts must be the same. What it takes to measure the costs of passes, once for a
//! drafter, counts.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use onedraw::{Kernel, SamplingParams, presets};
use onedraw_bench::machine::Machine;
use onedraw_bench::stopwatch::Spread;
use onedraw_lm::speculate::{Companion, Eagle, EarlyExit, Guessed, Ngram, Speculation};
use onedraw_lm::{
    Asks, EagleHead, GenerationConfig, Generator, LanguageModel, Llama, Run, Tokenizer, Wanted, stories,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What guesses gain.
#[derive(Parser)]
struct Arguments {
    /// Where to write the day's table
    #[arg(long)]
    results: Option<PathBuf>,
    /// Another target, with a drafter in its folder `drafter` if there is one
    #[arg(long, value_name = "DIR")]
    model: Option<PathBuf>,
    /// Threads of the target
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Two prompts: a look, not a measurement
    #[arg(long)]
    quick: bool,
    /// Only the cases whose name has this in it
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
    /// Always so many guesses ahead, in a line, instead of as many as pay
    #[arg(long, value_name = "K")]
    line: Option<usize>,
    /// `cargo bench` adds it
    #[arg(long = "bench", hide = true)]
    _bench: bool,
}

const PROMPTS: [&str; 16] = [
    "Once upon a time",
    "One day",
    "The little dog",
    "Lily and Tom",
    "There was a boy named Max",
    "In a small house",
    "A big bear",
    "Mom said",
    "Sara had a red ball",
    "It was a sunny day",
    "The bird flew",
    "Ben wanted to",
    "\"Look!\" said the cat",
    "Every night",
    "Anna and her brother",
    "The old man",
];

/// The target, and who may guess for it.
struct Models {
    target: Llama,
    drafter: Option<Llama>,
    eagle: Option<EagleHead>,
    tokenizer: Tokenizer,
    /// Tokens that end a text.
    ends: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Drafter,
    Exit(usize),
    Eagle,
    Ngram,
}

/// A row of the table.
struct Case {
    name: String,
    kind: Kind,
    /// Whether a story is told again: then it is the prompt, with a word that asks for it.
    repeats: bool,
    preset: &'static str,
    target: f64,
}

impl Models {
    fn open(arguments: &Arguments) -> Result<Self> {
        let on = |model: Llama, threads: usize| model.on(Kernel::Auto, threads);
        let Some(folder) = &arguments.model else {
            let target = on(stories::model()?, arguments.threads)?;
            let eagle = Some(stories::eagle(&target)?);
            let drafter = Some(on(stories::drafter()?, 1)?);
            let ends = stories::generation_config()?.eos_token_ids;
            return Ok(Self { target, drafter, eagle, tokenizer: stories::tokenizer()?, ends });
        };
        let target = on(Llama::open(folder)?, arguments.threads)?;
        let folder_of = |name: &str| Some(folder.join(name)).filter(|folder| folder.is_dir());
        let drafter = folder_of("drafter").map(|folder| {
            let drafter = Llama::open(&folder)?.among(target.shortlist().cloned());
            on(drafter, 1)
        });
        let eagle = folder_of("eagle").map(|folder| EagleHead::open(&folder, &target));
        Ok(Self {
            drafter: drafter.transpose()?,
            eagle: eagle.transpose()?,
            target,
            tokenizer: Tokenizer::open(folder)?,
            ends: GenerationConfig::open(folder)?.eos_token_ids,
        })
    }

    fn generator(&self, kind: Kind, line: Option<usize>) -> Result<Generator<'_, Llama>> {
        let generator = Generator::new(&self.target, &self.tokenizer);
        let speculation = match line {
            Some(depth) => Speculation { width: 1, depth, adapts: false, ..Speculation::default() },
            None => Speculation::default(),
        };
        Ok(match (kind, &self.drafter, &self.eagle) {
            (Kind::Drafter, Some(drafter), _) => {
                generator.speculate(Companion::new(drafter, &self.target)?, speculation)?
            }
            (Kind::Exit(layers), ..) => {
                generator.speculate(EarlyExit::new(layers, &self.target)?, speculation)?
            }
            (Kind::Eagle, _, Some(head)) => {
                generator.speculate(Eagle::new(head, &self.target), speculation)?
            }
            (Kind::Ngram, ..) => generator.speculate(Ngram::new(3)?, speculation)?,
            _ => return Err("there is no such drafter".into()),
        })
    }

    /// What can be measured.
    fn cases(&self) -> Vec<Case> {
        let case = |name: &str, kind, repeats, preset, target| Case {
            name: name.to_owned(),
            kind,
            repeats,
            preset,
            target,
        };
        let mut cases = Vec::new();
        let large = self.target.layers() > 6;
        if self.drafter.is_some() {
            cases.push(case("draft model", Kind::Drafter, false, "balanced", if large { 2.0 } else { 1.6 }));
        }
        for layers in [2, 3].into_iter().filter(|&layers| !large && layers < self.target.layers()) {
            let name = format!("early exit after {layers}");
            cases.push(case(&name, Kind::Exit(layers), false, "balanced", 1.5));
        }
        if self.eagle.is_some() {
            cases.push(case("EAGLE tree", Kind::Eagle, false, "balanced", 1.6));
        }
        if self.drafter.is_some() && !large {
            cases.push(case("draft model, creative", Kind::Drafter, false, "creative", 0.97));
        }
        cases.push(case("n-gram, a story again", Kind::Ngram, true, "balanced", 1.5));
        cases.push(case("n-gram, new stories", Kind::Ngram, false, "balanced", 0.97));
        cases
    }
}

/// What one case came to.
struct Found {
    ratios: Vec<f64>,
    plain: f64,
    guessed: Guessed,
    /// Shares of guessing, the target and the draws.
    shares: [f64; 3],
}

fn write(
    generator: &mut Generator<'_, Llama>,
    prompt: &[u32],
    params: &SamplingParams,
) -> Result<(Vec<u32>, f64)> {
    let begun = Instant::now();
    generator.add(prompt, params.clone())?;
    let text = generator.finish()?.remove(0);
    let time = begun.elapsed().as_secs_f64();
    Ok((text.tokens.iter().map(|sampled| sampled.token).collect(), time))
}

fn measure(models: &Models, case: &Case, prompts: &[&str], line: Option<usize>) -> Result<Found> {
    const TOKENS: u32 = 256;
    let mut params = presets::by_name(case.preset).ok_or("no such preset")?;
    (params.max_tokens, params.ignore_eos) = (TOKENS, !case.repeats);
    params.eos_token_id.clone_from(&models.ends);
    let mut plain = Generator::new(&models.target, &models.tokenizer);
    let mut guessing = models.generator(case.kind, line)?;
    let (mut ratios, mut seconds) = (Vec::new(), Vec::new());
    for (number, prompt) in prompts.iter().enumerate() {
        params.seed = Some(number as u64);
        let mut prompt = models.tokenizer.encode(prompt)?;
        if case.repeats {
            // A story of the model's own, and what the story model takes for a wish to hear it again.
            let (mut story, _) = write(&mut plain, &prompt, &params)?;
            story.retain(|token| !params.eos_token_id.contains(token));
            prompt.extend(story);
            prompt.extend(models.tokenizer.encode_plain("\n\nAgain:\n")?);
        }
        let (text, time) = write(&mut plain, &prompt, &params)?;
        let (same, faster) = write(&mut guessing, &prompt, &params)?;
        if text != same {
            return Err(format!("{}: the texts differ", case.name).into());
        }
        ratios.push(time / faster);
        seconds.push(time / text.len() as f64);
    }
    let timings = guessing.timings();
    let shares =
        [timings.draft_time, timings.output_time, timings.sampling_time].map(|time| time.as_secs_f64());
    let all: f64 = shares.iter().sum();
    seconds.sort_by(f64::total_cmp);
    Ok(Found {
        ratios,
        plain: seconds[seconds.len() / 2],
        guessed: guessing.guessed().cloned().unwrap_or_default(),
        shares: shares.map(|share| 100.0 * share / all),
    })
}

/// Milliseconds of passes of 1 to 16 positions after a text, the shortest of many.
fn costs(models: &Models) -> Result<Vec<f64>> {
    let mut start = models.target.start();
    let prompt: Vec<u32> = (1..=128).collect();
    models.target.forward(&mut [Run::line(&mut start, &prompt)])?;
    let asks = Asks { logits: Wanted::All, ..Asks::default() };
    let mut shortest = vec![f64::INFINITY; 16];
    // All of them in turn, so that a slow time of the machine is nobody's alone.
    for _ in 0..40 {
        for (positions, shortest) in (1..).zip(&mut shortest) {
            let mut sequence = start.clone();
            let begun = Instant::now();
            models.target.forward(&mut [Run { asks, ..Run::line(&mut sequence, &prompt[..positions]) }])?;
            *shortest = shortest.min(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(shortest)
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let models = Models::open(&arguments)?;
    let Machine { cpu, cores, caches, kernel, onedraw, date } = Machine::here(Kernel::Auto);
    let mut text = String::new();
    let target = arguments.model.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
    match &target {
        Some(target) => writeln!(text, "# {date}: speculation with {target}\n")?,
        None => writeln!(text, "# {date}: speculation\n")?,
    }
    let cpu = cpu.unwrap_or_else(|| "an unknown processor".to_owned());
    let parameters: usize = models.target.weights().map(<[u8]>::len).sum::<usize>() / 2;
    writeln!(
        text,
        "onedraw {onedraw} with {kernel} on {cpu}, {cores} cores, {}; {} threads.",
        caches.join(", "),
        arguments.threads
    )?;
    writeln!(
        text,
        "A target of {:.1} million parameters in bf16, {} layers; 256 tokens a prompt, up to 256 where a story is told again; the ratio of times without guesses and with them, the prompt's reading counted, median of the prompts (lowest–highest). The preset is `balanced` where no other is named. The texts were the same.\n",
        parameters as f64 / 1e6,
        models.target.layers()
    )?;
    writeln!(
        text,
        "| drafter | ratio | target | plain, µs a token | tokens a pass | guesses a pass | held, by depth | guessing, target, draws: % of the time | passes without guesses |"
    )?;
    writeln!(text, "|---|---:|---:|---:|---:|---:|---|---|---:|")?;
    let prompts = &PROMPTS[..if arguments.quick { 2 } else { PROMPTS.len() }];
    for case in models.cases().into_iter().filter(|case| case.name.contains(&arguments.only)) {
        let Found { ratios, plain, guessed, shares: [draft, target, draws] } =
            measure(&models, &case, prompts, arguments.line)?;
        let Spread { value, low, high } = Spread::of(ratios.into_iter());
        let held = guessed
            .depths
            .iter()
            .take(5)
            .map(|&(judged, held)| format!("{:.2}", held as f64 / judged as f64));
        writeln!(
            text,
            "| {} | {value:.2} ({low:.2}–{high:.2}) | {} {} | {:.0} | {:.2} | {:.2} | {} | {draft:.0}, {target:.0}, {draws:.0} | {} of {} |",
            case.name,
            case.target,
            if value >= case.target { "✓" } else { "✗" },
            plain * 1e6,
            guessed.tokens_a_pass(),
            guessed.guesses as f64 / guessed.passes.max(1) as f64,
            held.collect::<Vec<_>>().join(", "),
            guessed.plain_passes,
            guessed.passes + guessed.plain_passes,
        )?;
    }
    let costs = costs(&models)?;
    let list: Vec<String> = costs.iter().map(|cost| format!("{:.2}", cost / costs[0])).collect();
    writeln!(
        text,
        "\nPasses of 1 to 16 positions, as multiples of one ({:.2} ms): {}.",
        costs[0],
        list.join(", ")
    )?;
    print!("{text}");
    // A part of the table is no table.
    let is_whole = arguments.only.is_empty() && arguments.line.is_none();
    if let Some(folder) = arguments.results.filter(|_| is_whole) {
        let target = target.map_or(String::new(), |target| format!("-{target}"));
        std::fs::write(folder.join(format!("{date}-speculation{target}.md")), text)?;
    }
    Ok(())
}
