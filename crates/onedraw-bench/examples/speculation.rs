//! What guesses gain, beside plain decoding in the same run: `bench/speculation` runs it.
//!
//! Each prompt is written twice in turn, without guesses and with them, 256 tokens each; ratios are taken within a prompt, and both texts must be the same. What it
//! takes to measure the costs of passes, once for a drafter, counts.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use onedraw::{Kernel, SamplingParams, presets};
use onedraw_bench::machine::Machine;
use onedraw_bench::stopwatch::Spread;
use onedraw_lm::speculate::{Companion, Eagle, EarlyExit, Guessed, Ngram, Speculation};
use onedraw_lm::{Asks, EagleHead, Generator, LanguageModel, Llama, Run, Tokenizer, Wanted, stories};

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
    /// Whether the text repeats a story: then the prompt is a story and the beginning of it.
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
            return Ok(Self { target, drafter, eagle, tokenizer: stories::tokenizer()? });
        };
        let drafter = folder.join("drafter");
        let drafter = drafter.is_dir().then(|| Llama::open(&drafter)).transpose()?;
        Ok(Self {
            target: on(Llama::open(folder)?, arguments.threads)?,
            drafter: drafter.map(|drafter| on(drafter, 1)).transpose()?,
            eagle: None,
            tokenizer: Tokenizer::open(folder)?,
        })
    }

    fn generator(&self, kind: Kind) -> Result<Generator<'_, Llama>> {
        let (generator, speculation) =
            (Generator::new(&self.target, &self.tokenizer), Speculation::default());
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
        let large = self.eagle.is_none();
        if self.drafter.is_some() {
            cases.push(case("draft model", Kind::Drafter, false, "balanced", if large { 2.0 } else { 1.6 }));
        }
        if !large {
            cases.push(case("early exit after 2", Kind::Exit(2), false, "balanced", 1.5));
            cases.push(case("early exit after 3", Kind::Exit(3), false, "balanced", 1.5));
            cases.push(case("EAGLE tree", Kind::Eagle, false, "balanced", 1.6));
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

fn measure(models: &Models, case: &Case, prompts: &[&str]) -> Result<Found> {
    const TOKENS: u32 = 256;
    let mut params = presets::by_name(case.preset).ok_or("no such preset")?;
    (params.max_tokens, params.ignore_eos) = (TOKENS, true);
    let mut plain = Generator::new(&models.target, &models.tokenizer);
    let mut guessing = models.generator(case.kind)?;
    let (mut ratios, mut seconds) = (Vec::new(), Vec::new());
    for (number, prompt) in prompts.iter().enumerate() {
        params.seed = Some(number as u64);
        let mut prompt = models.tokenizer.encode(prompt)?;
        if case.repeats {
            // The beginning of a story, told three times: a small model then goes on telling it.
            let story = SamplingParams { max_tokens: 60, ..params.clone() };
            let story = [prompt.clone(), write(&mut plain, &prompt, &story)?.0].concat();
            prompt = story.repeat(3);
        }
        let (text, time) = write(&mut plain, &prompt, &params)?;
        let (same, faster) = write(&mut guessing, &prompt, &params)?;
        if text != same {
            return Err(format!("{}: the texts differ", case.name).into());
        }
        ratios.push(time / faster);
        seconds.push(time / f64::from(TOKENS));
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

/// Milliseconds of passes of 1 to 16 positions after a text, the shortest of a few.
fn costs(models: &Models) -> Result<Vec<f64>> {
    let mut start = models.target.start();
    let prompt: Vec<u32> = (1..=128).collect();
    models.target.forward(&mut [Run::line(&mut start, &prompt)])?;
    let pass = |positions: usize| {
        let mut shortest = f64::INFINITY;
        for _ in 0..15 {
            let mut sequence = start.clone();
            let asks = Asks { logits: Wanted::All, ..Asks::default() };
            let begun = Instant::now();
            models.target.forward(&mut [Run { asks, ..Run::line(&mut sequence, &prompt[..positions]) }])?;
            shortest = shortest.min(begun.elapsed().as_secs_f64() * 1e3);
        }
        Ok(shortest)
    };
    (1..=16).map(pass).collect()
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let models = Models::open(&arguments)?;
    let Machine { cpu, cores, caches, kernel, onedraw, date } = Machine::here(Kernel::Auto);
    let mut text = String::new();
    let name = if arguments.model.is_some() { "speculation, another target" } else { "speculation" };
    writeln!(text, "# {date}: {name}\n")?;
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
        "A target of {:.1} million parameters in bf16, {} layers; 256 tokens a prompt; the ratio of times without guesses and with them, median of the prompts (lowest–highest). The texts were the same.\n",
        parameters as f64 / 1e6,
        models.target.layers()
    )?;
    writeln!(
        text,
        "| drafter | ratio | target | plain, µs a token | tokens a pass | guesses a pass | held, by depth | guessing, target, draws: % of the time | passes without guesses |"
    )?;
    writeln!(text, "|---|---:|---:|---:|---:|---:|---|---|---:|")?;
    let prompts = &PROMPTS[..if arguments.quick { 2 } else { PROMPTS.len() }];
    for case in models.cases() {
        let Found { ratios, plain, guessed, shares: [draft, target, draws] } =
            measure(&models, &case, prompts)?;
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
    if let Some(folder) = arguments.results {
        let name = if arguments.model.is_some() { "speculation-another-target" } else { "speculation" };
        std::fs::write(folder.join(format!("{date}-{name}.md")), text)?;
    }
    Ok(())
}
