//! Everything that a run measured, for programs and for people.

use std::fmt::{self, Write};

use onedraw_bench::machine::Machine;
use onedraw_bench::report::{Line, Setting};
use onedraw_bench::stopwatch::Spread;
use serde::Serialize;

use crate::verdict::{FALSE_ALARMS, TOLERANCE, Verdict};

/// The whole run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// On what, and when.
    pub machine: Machine,
    /// Who took part.
    pub engines: Vec<Version>,
    /// What was measured, in order; a sampler without a strategy has no entry for it.
    pub entries: Vec<Entry>,
}

/// A sampler and its version.
#[derive(Debug, Serialize)]
pub struct Version {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: String,
}

/// One sampler, strategy and setting.
#[derive(Debug, Serialize)]
pub struct Entry {
    /// The sampler.
    pub engine: &'static str,
    /// Whether what it draws from is right.
    pub answer: Verdict,
    /// Its times.
    #[serde(flatten)]
    pub line: Line,
    /// Its time by onedraw's, a round each; above 1 onedraw is faster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_onedraw: Option<Spread>,
}

impl Report {
    /// The name of the files of results: the day and the processor.
    pub fn name(&self) -> String {
        let cpu = self.machine.cpu.as_deref().unwrap_or("cpu").to_lowercase();
        let words =
            cpu.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty() && *word != "r");
        format!("{}-{}", self.machine.date, words.collect::<Vec<_>>().join("-"))
    }

    /// Consecutive entries of one setting.
    fn settings(&self) -> impl Iterator<Item = &[Entry]> {
        self.entries.chunk_by(|a, b| a.line.setting == b.line.setting)
    }

    fn table(&self, f: &mut impl Write, entries: &[Entry], notes: &mut Vec<String>) -> fmt::Result {
        let setting: &Setting = &entries[0].line.setting;
        let took_part = |version: &&Version| entries.iter().any(|entry| entry.engine == version.name);
        let engines: Vec<_> = self.engines.iter().filter(took_part).map(|version| version.name).collect();
        writeln!(f, "\n## {setting}\n")?;
        writeln!(f, "| strategy | floor | {} |", engines.join(" | "))?;
        writeln!(f, "|---|---:|{}", "---:|".repeat(engines.len()))?;
        for of_strategy in entries.chunk_by(|a, b| a.line.strategy == b.line.strategy) {
            let line = &of_strategy[0].line;
            write!(f, "| {} | {:.1} |", line.strategy, line.floor_mean)?;
            for engine in &engines {
                match of_strategy.iter().find(|entry| entry.engine == *engine) {
                    None => write!(f, " — |")?,
                    Some(entry) => write!(f, " {} |", cell(entry, notes))?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// onedraw's time and how many floors that is; a peer's time and how many of onedraw's that is, in bold where
/// onedraw loses.
fn cell(entry: &Entry, notes: &mut Vec<String>) -> String {
    let Entry { line, to_onedraw, answer, engine } = entry;
    let mut cell = format!("{}: ", time(line.mean));
    match to_onedraw {
        Some(Spread { value, low, high }) if *value < 1.0 => {
            write!(cell, "**{value:.2}×** ({low:.2}–{high:.2})")
        }
        Some(Spread { value, low, high }) => {
            write!(cell, "{}× ({}–{})", short(*value), short(*low), short(*high))
        }
        None => write!(cell, "{}", line.ratio.to_string().trim()),
    }
    .expect("a String takes everything");
    if let Some(speed_up) = &line.speed_up {
        cell += &format!(", speed-up {}", speed_up.to_string().trim());
    }
    if let Some(to_f32) = &line.to_f32 {
        cell += &format!(", of f32 {}", to_f32.to_string().trim());
    }
    let (mark, reason) = match answer {
        Verdict::Right => return cell,
        Verdict::Unchecked => return cell + " (unchecked)",
        Verdict::Border(reason) => ("border", reason),
        Verdict::Wrong(reason) => ("wrong", reason),
    };
    let Setting { rows, vocabulary, .. } = &line.setting;
    let note = format!("{mark}: {engine}, {}, {rows} rows of {vocabulary}: {reason}.", line.strategy);
    let place = notes.iter().position(|other| *other == note).unwrap_or_else(|| {
        notes.push(note);
        notes.len() - 1
    });
    format!("{cell} {mark} [{}]", place + 1)
}

/// Three digits are more than a run can repeat.
fn short(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

fn time(microseconds: f64) -> String {
    match microseconds {
        t if t < 100.0 => format!("{t:.1}"),
        t => format!("{t:.0}"),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { cpu, cores, caches, kernel, onedraw, date } = &self.machine;
        let cpu = cpu.as_deref().unwrap_or("an unknown processor");
        let peers = self.engines.iter().filter(|engine| engine.name != "onedraw");
        let peers: Vec<_> = peers.map(|engine| format!("{} {}", engine.name, engine.version)).collect();
        writeln!(f, "# {date}: beside the peers\n")?;
        writeln!(
            f,
            "onedraw {onedraw} with {kernel} on {cpu}, {cores} cores, {}; {}.",
            caches.join(", "),
            peers.join(", ")
        )?;
        writeln!(
            f,
            "Mean µs a row. The floor is one bare max-scan of the row. onedraw: the time, and in floors the median of the rounds (lowest–highest) and the"
        )?;
        writeln!(
            f,
            "target. Peers: as a multiple of onedraw's time, the same way; bold where onedraw loses. —: has no such strategy."
        )?;
        writeln!(
            f,
            "Every distribution is compared with an f64 oracle; wrong: total variation above {TOLERANCE:e} or, for draws, a p-value below {FALSE_ALARMS:e}."
        )?;
        let mut notes = Vec::new();
        for entries in self.settings() {
            self.table(f, entries, &mut notes)?;
        }
        if !notes.is_empty() {
            writeln!(f, "\n## Answers that differ\n")?;
        }
        for (number, note) in (1..).zip(&notes) {
            writeln!(f, "{number}. {note}")?;
        }
        let judged = self
            .entries
            .iter()
            .flat_map(|entry| [Some(entry.line.ratio), entry.line.speed_up, entry.line.to_f32]);
        let verdicts: Vec<bool> = judged.flatten().filter_map(|judged| judged.holds).collect();
        let held = verdicts.iter().filter(|holds| **holds).count();
        writeln!(f, "\n{held} of {} targets hold.", verdicts.len())
    }
}
