//! What guesses gain, beside plain decoding in the same run: `bench/speculation` runs it.
//!
//! Each prompt is written twice in turn, without guesses and with them, 256 tokens each; ratios are taken
//! within a prompt, and both texts must be the same. Beside each ratio stands its limit: what [the costs](limit) of
//! passes and guesses allow for guesses that hold as often as these did. A row is printed as soon as it is measured.

mod prompts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use onedraw::{Kernel, SamplingParams, presets};
use onedraw_bench::machine::Machine;
use onedraw_bench::stopwatch::Spread;
use onedraw_lm::speculate::{Companion, Eagle, EarlyExit, Guessed, Ngram, Speculation};
use onedraw_lm::{
    Asks, ChatTemplate, EagleHead, GenerationConfig, Generator, LanguageModel, Llama, Message, Run,
    Tokenizer, Wanted, stories,
};

use crate::prompts::{COUNT, Theme};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What guesses gain.
#[derive(Parser)]
struct Arguments {
    /// Where to write the day's table
    #[arg(long)]
    results: Option<PathBuf>,
    /// Another target, with what its folders `drafter` and `eagle` have
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

/// The target, and who may guess for it.
struct Models {
    target: Llama,
    drafter: Option<Llama>,
    eagle: Option<EagleHead>,
    tokenizer: Tokenizer,
    /// Of a model that answers.
    template: Option<ChatTemplate>,
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
    theme: Theme,
    preset: &'static str,
    /// How many texts are written side by side.
    texts: usize,
}

impl Models {
    fn open(arguments: &Arguments) -> Result<Self> {
        let on = |model: Llama, threads: usize| model.on(Kernel::Auto, threads);
        let Some(folder) = &arguments.model else {
            let target = on(stories::model()?, arguments.threads)?;
            let eagle = Some(stories::eagle(&target)?);
            let drafter = Some(on(stories::drafter()?, 1)?);
            let ends = stories::generation_config()?.eos_token_ids;
            return Ok(Self {
                target,
                drafter,
                eagle,
                tokenizer: stories::tokenizer()?,
                template: None,
                ends,
            });
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
            template: ChatTemplate::open(folder)?,
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
        let case = |name: &str, kind| Case {
            name: name.to_owned(),
            kind,
            theme: Theme::Story,
            preset: "balanced",
            texts: 1,
        };
        let answers = self.template.is_some();
        let mut cases = Vec::new();
        let mut guesser = |name: &str, kind| {
            let named = |what: &str| case(&format!("{name}{what}"), kind);
            cases.push(named(""));
            cases.push(Case { preset: "deterministic", ..named(", deterministic") });
            cases.push(Case { preset: "creative", ..named(", creative") });
            if answers {
                cases.push(Case { theme: Theme::Answer, ..named(", answers") });
                let preset = "deterministic";
                cases.push(Case { theme: Theme::Answer, preset, ..named(", answers, deterministic") });
            }
            cases.push(Case { texts: 8, ..named(", eight texts") });
        };
        if self.drafter.is_some() {
            guesser("draft model", Kind::Drafter);
        }
        if self.eagle.is_some() {
            guesser("EAGLE tree", Kind::Eagle);
        }
        if !answers {
            for layers in [2, 3].into_iter().filter(|&layers| layers < self.target.layers()) {
                cases.push(case(&format!("early exit after {layers}"), Kind::Exit(layers)));
            }
            cases.push(Case { theme: Theme::StoryAgain, ..case("n-gram, a story again", Kind::Ngram) });
        } else {
            let task =
                || Case { theme: Theme::Task, ..case("n-gram, summaries and corrections", Kind::Ngram) };
            cases.push(task());
            let name = format!("{}, deterministic", task().name);
            cases.push(Case { name, preset: "deterministic", ..task() });
        }
        cases.push(case("n-gram, new stories", Kind::Ngram));
        cases
    }

    /// The tokens of a prompt.
    fn prompt(&self, theme: Theme, number: usize) -> Result<Vec<u32>> {
        let words = theme.words(number);
        match &self.template {
            Some(template) if theme.is_asked() => {
                Ok(self.tokenizer.encode_plain(&template.render(&[Message::new("user", words)], true)?)?)
            }
            _ => Ok(self.tokenizer.encode(&words)?),
        }
    }
}

/// What one case came to.
struct Found {
    ratios: Vec<f64>,
    /// Seconds of a token without guesses, and of making a guess.
    plain: f64,
    guess: f64,
    guessed: Guessed,
    /// Shares of guessing, the target and the draws.
    shares: [f64; 3],
}

/// Writes texts side by side. Returns the tokens of each, and the time.
fn write(
    generator: &mut Generator<'_, Llama>,
    prompts: &[Vec<u32>],
    params: &SamplingParams,
) -> Result<(Vec<Vec<u32>>, f64)> {
    let begun = Instant::now();
    for prompt in prompts {
        generator.add(prompt, params.clone())?;
    }
    let texts = generator.finish()?;
    let time = begun.elapsed().as_secs_f64();
    let tokens = texts.into_iter().map(|text| text.tokens.iter().map(|sampled| sampled.token).collect());
    Ok((tokens.collect(), time))
}

fn measure(models: &Models, case: &Case, prompts: usize, line: Option<usize>) -> Result<Found> {
    const TOKENS: u32 = 256;
    let mut params = presets::by_name(case.preset).ok_or("no such preset")?;
    (params.max_tokens, params.ignore_eos) = (TOKENS, case.theme == Theme::Story);
    params.eos_token_id.clone_from(&models.ends);
    let mut plain = Generator::new(&models.target, &models.tokenizer);
    let mut guessing = models.generator(case.kind, line)?;
    let (mut ratios, mut seconds) = (Vec::new(), Vec::new());
    for number in 0..prompts {
        params.seed = Some(number as u64);
        // Side by side: this prompt and those after it.
        let together = (number..number + case.texts).map(|number| models.prompt(case.theme, number));
        let mut together = together.collect::<Result<Vec<_>>>()?;
        if case.theme == Theme::StoryAgain {
            // Stories of the model's own, and what the story model takes for a wish to hear them again.
            let (stories, _) = write(&mut plain, &together, &params)?;
            for (prompt, mut story) in together.iter_mut().zip(stories) {
                story.retain(|token| !params.eos_token_id.contains(token));
                prompt.extend(story);
                prompt.extend(models.tokenizer.encode_plain("\n\nAgain:\n")?);
            }
        }
        let (texts, time) = write(&mut plain, &together, &params)?;
        let (same, faster) = write(&mut guessing, &together, &params)?;
        if texts != same {
            return Err(format!("{}: the texts differ", case.name).into());
        }
        ratios.push(time / faster);
        seconds.push(time / texts.iter().map(Vec::len).sum::<usize>() as f64);
    }
    let timings = guessing.timings();
    let shares =
        [timings.draft_time, timings.output_time, timings.sampling_time].map(|time| time.as_secs_f64());
    let all: f64 = shares.iter().sum();
    seconds.sort_by(f64::total_cmp);
    let guessed = guessing.guessed().cloned().unwrap_or_default();
    Ok(Found {
        ratios,
        plain: seconds[seconds.len() / 2],
        guess: shares[0] / guessed.guesses.max(1) as f64,
        guessed,
        shares: shares.map(|share| 100.0 * share / all),
    })
}

/// How many times as fast guesses that hold as often as these can be, where nothing costs but passes and guesses: the
/// best of all numbers of guesses ahead, one for each place.
///
/// ```text
/// tokens of a pass / (time of the pass with its guesses + time of making them), beside a pass without guesses
/// ```
fn limit(models: &Models, case: &Case, found: &Found, costs: &BTreeMap<usize, f64>) -> Option<f64> {
    let of = |positions: usize| costs.get(&positions).copied();
    // What an early exit has read already, the pass does not read again.
    let exited = match case.kind {
        Kind::Exit(layers) => layers as f64 / models.target.layers() as f64,
        _ => 0.0,
    };
    let plain = of(case.texts)?;
    let (mut tokens, mut chance, mut best) = (1.0, 1.0, 1.0f64);
    let held = found.guessed.depths.iter().map(|&(judged, held)| held as f64 / judged as f64);
    for (ahead, held) in (1..).zip(held) {
        chance *= held;
        tokens += chance;
        let Some(cost) = of(case.texts * (1 + ahead)) else { break };
        let pass = cost - exited * (cost - plain);
        let guesses = (case.texts * ahead) as f64 * found.guess * 1e3;
        best = best.max(tokens * plain / (pass + guesses));
    }
    Some(best)
}

/// The numbers of positions of passes that are measured: those of one text with guesses, and of eight.
fn positions() -> impl Iterator<Item = usize> {
    (1..=16).chain((24..=64).step_by(8))
}

/// Milliseconds of passes of so many positions after a text, the shortest of many.
fn costs(models: &Models) -> Result<BTreeMap<usize, f64>> {
    let mut start = models.target.start();
    let prompt: Vec<u32> = (1..=128).collect();
    models.target.forward(&mut [Run::line(&mut start, &prompt)])?;
    let asks = Asks { logits: Wanted::All, ..Asks::default() };
    let mut shortest: BTreeMap<usize, f64> =
        positions().map(|positions| (positions, f64::INFINITY)).collect();
    // All of them in turn, so that a slow time of the machine is nobody's alone.
    for _ in 0..40 {
        for (&positions, shortest) in &mut shortest {
            let mut sequence = start.clone();
            let begun = Instant::now();
            models.target.forward(&mut [Run { asks, ..Run::line(&mut sequence, &prompt[..positions]) }])?;
            *shortest = shortest.min(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(shortest)
}

/// What is printed, and kept for the day's table.
#[derive(Default)]
struct Report(String);

impl Report {
    fn line(&mut self, line: &str) {
        println!("{line}");
        self.0 += line;
        self.0 += "\n";
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let models = Models::open(&arguments)?;
    let Machine { cpu, cores, caches, kernel, onedraw, date } = Machine::here(Kernel::Auto);
    let mut report = Report::default();
    let target = arguments.model.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
    let with = target.as_ref().map_or(String::new(), |target| format!(" with {target}"));
    let cpu = cpu.unwrap_or_else(|| "an unknown processor".to_owned());
    let parameters: usize = models.target.weights().map(<[u8]>::len).sum::<usize>() / 2;
    report.line(&format!("# {date}: speculation{with}\n"));
    report.line(&format!(
        "onedraw {onedraw} with {kernel} on {cpu}, {cores} cores, {}; {} threads.",
        caches.join(", "),
        arguments.threads
    ));
    report.line(&format!(
        "A target of {:.1} million parameters in bf16, {} layers; {} prompts, 256 tokens each, or up to 256 where it is not a new story; the ratio of times without guesses and with them, the prompt's reading counted, median of the prompts (lowest–highest). The preset is `balanced` where no other is named. The texts were the same.\n",
        parameters as f64 / 1e6,
        models.target.layers(),
        if arguments.quick { 2 } else { COUNT },
    ));
    report.line("| drafter | ratio | limit | plain, µs a token | tokens a pass | guesses a pass | held, by depth | guessing, target, draws: % of the time | passes without guesses |");
    report.line("|---|---:|---:|---:|---:|---:|---|---|---:|");
    let costs = costs(&models)?;
    let prompts = if arguments.quick { 2 } else { COUNT };
    for case in models.cases().into_iter().filter(|case| case.name.contains(&arguments.only)) {
        let found = measure(&models, &case, prompts, arguments.line)?;
        let limit = limit(&models, &case, &found, &costs).ok_or("a number of texts that was not measured")?;
        report.line(&row(&case, found, limit));
    }
    let list: Vec<String> = costs.values().map(|cost| format!("{:.2}", cost / costs[&1])).collect();
    report.line(&format!(
        "\nPasses of {} positions, as multiples of one ({:.2} ms): {}.",
        positions().map(|positions| positions.to_string()).collect::<Vec<_>>().join(", "),
        costs[&1],
        list.join(", ")
    ));
    // A part of the table is no table.
    let is_whole = arguments.only.is_empty() && arguments.line.is_none();
    if let Some(folder) = arguments.results.filter(|_| is_whole) {
        let target = target.map_or(String::new(), |target| format!("-{target}"));
        std::fs::write(folder.join(format!("{date}-speculation{target}.md")), report.0)?;
    }
    Ok(())
}

/// A row of the table.
fn row(case: &Case, found: Found, limit: f64) -> String {
    let Found { ratios, plain, guessed, shares: [draft, target, draws], .. } = found;
    let Spread { value, low, high } = Spread::of(ratios.into_iter());
    let held = guessed.depths.iter().take(5);
    let held = held.map(|&(judged, held)| format!("{:.2}", held as f64 / judged as f64));
    format!(
        "| {} | {value:.2} ({low:.2}–{high:.2}) | {limit:.2} | {:.0} | {:.2} | {:.2} | {} | {draft:.0}, {target:.0}, {draws:.0} | {} of {} |",
        case.name,
        plain * 1e6,
        guessed.tokens_a_pass(),
        guessed.guesses as f64 / guessed.passes.max(1) as f64,
        held.collect::<Vec<_>>().join(", "),
        guessed.plain_passes,
        guessed.passes + guessed.plain_passes,
    )
}
