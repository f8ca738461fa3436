//! The order of events: which rows, in which state of the caches, who takes turns.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use half::bf16;
use onedraw::{Kernel, Sampler};
use onedraw_bench::aligned::Aligned;
use onedraw_bench::contender::{Cache, Contender, Effort, take_turns};
use onedraw_bench::report::{Judged, Line, Setting, Target};
use onedraw_bench::rows::Shape;
use onedraw_bench::stopwatch::Stopwatch;
use onedraw_bench::strategies::{self, REAL_VOCABULARY, Strategy, TARGET_VOCABULARY};
use onedraw_bench::suite::{
    BATCHES, FOR_BATCHES, FOR_COLD, HALVES_TARGET, LARGEST_BATCH, SPEED_UP_TARGET, Sequences, cold_count,
    cold_rows, draws, floor,
};

use crate::candle::Candle;
use crate::engine::{Answer, Engine, Onedraw};
use crate::llama::Llama;
use crate::llm_samplers::LlmSamplers;
use crate::report::Entry;
use crate::torch::{Server, Torch};
use crate::verdict::{Verdict, judge, judge_logprobs};

/// The vocabularies of Llama 2, Llama 3 and Qwen 2.
const VOCABULARIES: [usize; 3] = [32_000, TARGET_VOCABULARY, 151_936];

/// How much is measured, and with whom.
pub struct Comparison {
    /// PyTorch, if there is one.
    pub torch: Option<Rc<RefCell<Server>>>,
    /// Strategies whose names have this in them.
    pub part_of_name: String,
    /// A look, not a measurement.
    pub quick: bool,
    /// Answers that were looked at, by sampler, strategy, shape and vocabulary.
    pub verdicts: BTreeMap<(&'static str, &'static str, &'static str, usize), Verdict>,
}

/// Rows of one shape and vocabulary.
struct Source {
    shape: &'static str,
    rows: Vec<Vec<f32>>,
}

impl Comparison {
    /// Measures everything.
    pub fn run(&mut self, real: Vec<Vec<f32>>) -> Vec<Entry> {
        let count = if self.quick { 2 } else { 3 };
        let mut sources: Vec<Source> = Vec::new();
        let vocabularies = VOCABULARIES.into_iter().filter(|size| !self.quick || *size == TARGET_VOCABULARY);
        for vocabulary in vocabularies {
            for shape in Shape::ALL {
                let rows = (1..=count).map(|seed| shape.row(seed, vocabulary)).collect();
                sources.push(Source { shape: shape.name(), rows });
            }
        }
        let kept = if self.quick { 2 } else { real.len() };
        sources.push(Source { shape: "real", rows: real.into_iter().take(kept).collect() });
        let mut entries = Vec::new();
        for source in &sources {
            let rows: Vec<_> = source.rows.iter().map(|row| Aligned::new(row)).collect();
            entries.extend(self.side_by_side(source, &rows, Cache::Hot));
        }
        for source in sources
            .iter()
            .filter(|source| [TARGET_VOCABULARY, REAL_VOCABULARY].contains(&source.vocabulary()))
        {
            let rows = cold_rows(&source.rows, cold_count(source.vocabulary()), |logit| logit);
            entries.extend(self.side_by_side(source, &rows, Cache::Cold));
            if source.shape != "flat" {
                entries.extend(self.halves(source, &rows));
            }
            if source.shape == "peaked" {
                entries.extend(self.batches(source, &rows));
            }
        }
        entries
    }

    fn effort(&self, cache: Cache) -> Effort {
        let watch = |draws, milliseconds| Stopwatch {
            warm_up: 1,
            draws,
            at_most: Duration::from_millis(milliseconds),
        };
        let draws = if cache == Cache::Hot { 200 } else { 400 };
        match self.quick {
            true => Effort { rounds: 3, turn: watch(draws / 5, 8), floor: watch(20, 8) },
            false => Effort { rounds: 5, turn: watch(draws, 20), floor: watch(40, 8) },
        }
    }

    fn strategies(&self, among: Option<&[&str]>) -> Vec<&'static Strategy> {
        let wanted = |strategy: &&Strategy| among.is_none_or(|among| among.contains(&strategy.name));
        strategies::named(&self.part_of_name).filter(wanted).collect()
    }

    /// Everybody on the same rows.
    fn side_by_side(&mut self, source: &Source, rows: &[Aligned<f32>], cache: Cache) -> Vec<Entry> {
        let mut engines: Vec<Box<dyn Engine + '_>> = vec![
            Box::new(Onedraw::new(rows)),
            Box::new(Llama::new(rows)),
            Box::new(Candle::new(rows)),
            Box::new(LlmSamplers::new(rows)),
        ];
        if let Some(server) = &self.torch {
            engines.push(Box::new(Torch::new(server, rows)));
        }
        let mut entries = Vec::new();
        let effort = self.effort(cache);
        for strategy in self.strategies((cache == Cache::Cold).then_some(&FOR_COLD)) {
            eprintln!("{}, {} {}: {}", source.shape, source.vocabulary(), cache.name(), strategy.name);
            let verdicts: Vec<_> =
                engines.iter_mut().map(|engine| self.verdict(&mut **engine, strategy, source)).collect();
            let mut names = Vec::new();
            let mut contenders: Vec<Box<dyn Contender + '_>> = Vec::new();
            for (engine, verdict) in engines.iter_mut().zip(verdicts) {
                let name = engine.name();
                if let Some(contender) = engine.contender(strategy) {
                    contenders.push(contender);
                    names.push((name, verdict));
                }
            }
            let mut turns: Vec<&mut dyn Contender> = Vec::new();
            for contender in &mut contenders {
                turns.push(&mut **contender);
            }
            let (bare, records) = take_turns(&mut floor(rows), &mut turns, cache, rows.len(), &effort);
            for ((engine, answer), record) in names.into_iter().zip(&records) {
                let is_onedraw = engine == "onedraw";
                let target = strategy.targets.hot(source.shape, source.vocabulary());
                let target = target.filter(|_| is_onedraw && cache == Cache::Hot);
                let line = Line::new(strategy.name, source.setting("f32", cache), record, &bare, target);
                let to_onedraw = (!is_onedraw).then(|| record.ratio_to(&records[0]));
                entries.push(Entry { engine, answer, line, to_onedraw });
            }
        }
        entries
    }

    /// Looked at once for each strategy, shape and vocabulary, on the first row.
    fn verdict(&mut self, engine: &mut dyn Engine, strategy: &'static Strategy, source: &Source) -> Verdict {
        let key = (engine.name(), strategy.name, source.shape, source.vocabulary());
        if let Some(verdict) = self.verdicts.get(&key) {
            return verdict.clone();
        }
        let params = engine.own_reading(strategy.params(1, source.vocabulary()));
        let row = &source.rows[0];
        let of_distribution = engine.answer(strategy, 0).map(|answer| judge(row, &params, &answer));
        let mut verdict = of_distribution.unwrap_or(Verdict::Unchecked);
        if params.logprobs.is_some() && verdict == Verdict::Right {
            verdict = match engine.logprobs(strategy, 0) {
                Some(listed) => judge_logprobs(row, &params, &listed),
                None => Verdict::Unchecked,
            };
        }
        self.verdicts.insert(key, verdict.clone());
        verdict
    }

    /// onedraw on the same rows as bf16, in cache and out of it.
    fn halves(&self, source: &Source, cold: &[Aligned<f32>]) -> Vec<Entry> {
        let mut entries = Vec::new();
        for cache in [Cache::Hot, Cache::Cold] {
            let count = if cache == Cache::Hot { source.rows.len() } else { cold.len() };
            let brains = cold_rows(&source.rows, count, bf16::from_f32);
            for strategy in self.strategies(Some(&FOR_COLD)) {
                let sampler =
                    || Sampler::new(strategy.params(1, source.vocabulary())).expect("valid parameters");
                let (mut single, mut brain) = (sampler(), sampler());
                let answer = half_answer(&mut brain, brains[0].row(), strategy);
                let mut contenders: [&mut dyn Contender; 2] =
                    [&mut draws(&mut single, cold), &mut draws(&mut brain, &brains)];
                let (bare, records) =
                    take_turns(&mut floor(cold), &mut contenders, cache, count, &self.effort(cache));
                let mut line =
                    Line::new(strategy.name, source.setting("bf16", cache), &records[1], &bare, None);
                let target = (cache == Cache::Cold).then_some(Target::AtMost(HALVES_TARGET));
                line.to_f32 = Some(Judged::new(records[1].ratio_to(&records[0]), target));
                entries.push(Entry { engine: "onedraw", answer, line, to_onedraw: None });
            }
        }
        entries
    }

    /// Batches on two threads, with onedraw's on one beside them.
    fn batches(&self, source: &Source, cold: &[Aligned<f32>]) -> Vec<Entry> {
        let mut torch = self.torch.as_ref().map(|server| Torch::new(server, cold));
        // A batch of 64 is seconds to PyTorch.
        let mut effort = Effort { rounds: 3, ..self.effort(Cache::Cold) };
        effort.turn = Stopwatch { warm_up: 1, draws: 30, at_most: effort.turn.at_most * 3 };
        let mut entries = Vec::new();
        for size in BATCHES {
            for strategy in self.strategies(Some(&FOR_BATCHES)) {
                eprintln!("batches of {size}: {}", strategy.name);
                let params = |row: usize| strategy.params(row as u64, source.vocabulary());
                let mut one = Sequences::new(size, params, 1, Kernel::Auto, cold);
                let mut two = Sequences::new(size, params, 2, Kernel::Auto, cold);
                let (mut one, mut two) = (
                    |_: usize, position: u32| one.draw(position),
                    |_: usize, position: u32| two.draw(position),
                );
                let mut contenders: Vec<&mut dyn Contender> = vec![&mut one, &mut two];
                let mut peer = torch.as_mut().and_then(|torch| torch.batches(strategy, size, 2));
                contenders.extend(peer.as_mut().map(|peer| peer as &mut dyn Contender));
                let (bare, records) =
                    take_turns(&mut floor(cold), &mut contenders, Cache::Cold, cold.len(), &effort);
                let setting = Setting { batch: size, threads: 2, ..source.setting("f32", Cache::Cold) };
                let answer = |engine| {
                    let key = (engine, strategy.name, source.shape, source.vocabulary());
                    self.verdicts.get(&key).cloned().unwrap_or(Verdict::Unchecked)
                };
                let mut line = Line::new(strategy.name, setting.clone(), &records[1], &bare, None);
                let target = (size == LARGEST_BATCH).then_some(Target::AtLeast(SPEED_UP_TARGET));
                line.speed_up = Some(Judged::new(records[0].ratio_to(&records[1]), target));
                entries.push(Entry { engine: "onedraw", answer: answer("onedraw"), line, to_onedraw: None });
                if let Some(record) = records.get(2) {
                    let line = Line::new(strategy.name, setting, record, &bare, None);
                    let to_onedraw = Some(record.ratio_to(&records[1]));
                    entries.push(Entry { engine: "PyTorch", answer: answer("PyTorch"), line, to_onedraw });
                }
            }
        }
        entries
    }
}

/// Whether a row of bf16 has the distribution of its logits as f32.
fn half_answer(sampler: &mut Sampler, row: &[bf16], strategy: &Strategy) -> Verdict {
    let distribution = sampler.distribution(row).expect("rows that can be drawn from");
    let answer =
        Answer::Distribution { tokens: distribution.tokens, probabilities: distribution.probabilities };
    let wide: Vec<f32> = row.iter().map(|logit| logit.to_f32()).collect();
    judge(&wide, &strategy.params(1, wide.len()), &answer)
}

impl Source {
    fn vocabulary(&self) -> usize {
        self.rows[0].len()
    }

    fn setting(&self, element: &'static str, cache: Cache) -> Setting {
        let (rows, cache, vocabulary) = (self.shape, cache.name(), self.vocabulary());
        Setting { rows, element, vocabulary, cache, batch: 1, threads: 1 }
    }
}
