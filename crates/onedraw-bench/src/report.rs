//! What was measured: lines for people and for programs.

use std::fmt;

use serde::Serialize;

use crate::machine::Machine;
use crate::stopwatch::{Record, Spread};

/// Everything that one run measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// On what, and when.
    pub machine: Machine,
    /// What was measured, in order.
    pub lines: Vec<Line>,
}

/// What is drawn from, and how.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// The shape of the rows.
    pub rows: &'static str,
    /// The type of a logit.
    pub element: &'static str,
    /// The logits of a row.
    pub vocabulary: usize,
    /// Whether the rows are in cache.
    pub cache: &'static str,
    /// The rows drawn together.
    pub batch: usize,
    /// The threads they are drawn on.
    pub threads: usize,
}

/// One strategy in one setting. Times are microseconds a row.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// What was asked.
    pub strategy: &'static str,
    /// Of what.
    #[serde(flatten)]
    pub setting: Setting,
    /// The mean of the rounds' means.
    pub mean: f64,
    /// Half of the draws took less.
    pub median: f64,
    /// A tenth of the draws took less.
    pub p10: f64,
    /// Nine tenths of the draws took less.
    pub p90: f64,
    /// The floor's mean and median: a bare max-scan of the same rows as f32, in turns with these draws.
    pub floor_mean: f64,
    /// See `floor_mean`.
    pub floor_median: f64,
    /// Mean by mean, a round each.
    pub ratio: Judged,
    /// Median by median.
    pub ratio_of_medians: f64,
    /// The time on one thread by the time on several, a round each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_up: Option<Judged>,
    /// The time by the time of the same draw from f32, a round each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_f32: Option<Judged>,
    /// The time by that of another draw from the same rows, where there is one to compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_other: Option<ToOther>,
}

/// How long a draw takes beside another one.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ToOther {
    /// The name of the other one.
    pub other: &'static str,
    /// Mean by mean, a round each.
    pub ratio: Judged,
}

impl Line {
    /// From the records of the draws and of the floor. A draw of the record is a whole batch; a look at the
    /// floor one row.
    pub fn new(
        strategy: &'static str,
        setting: Setting,
        draws: &Record,
        floor: &Record,
        target: Option<f64>,
    ) -> Self {
        let (all, bare) = (draws.all(), floor.all());
        let a_row = |time: f64| time / setting.batch as f64;
        let (median, floor_median) = (a_row(all.quantile(0.5)), bare.quantile(0.5));
        let Spread { value, low, high } = draws.ratio_to(floor);
        let ratio = Spread { value: a_row(value), low: a_row(low), high: a_row(high) };
        Self {
            strategy,
            mean: a_row(draws.mean()),
            median,
            p10: a_row(all.quantile(0.1)),
            p90: a_row(all.quantile(0.9)),
            floor_mean: floor.mean(),
            floor_median,
            ratio: Judged::new(ratio, target.map(Target::AtMost)),
            ratio_of_medians: median / floor_median,
            setting,
            speed_up: None,
            to_f32: None,
            to_other: None,
        }
    }
}

/// What a ratio should be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Not above.
    AtMost(f64),
    /// Not below.
    AtLeast(f64),
}

/// A ratio, and whether it is what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Over the rounds.
    #[serde(flatten)]
    pub spread: Spread,
    /// What it should be, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Whether it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
}

impl Judged {
    /// Compares the median of the rounds with the target.
    pub fn new(spread: Spread, target: Option<Target>) -> Self {
        let holds = |target| match target {
            Target::AtMost(most) => spread.value <= most,
            Target::AtLeast(least) => spread.value >= least,
        };
        Self { spread, target, holds: target.map(holds) }
    }
}

impl fmt::Display for Judged {
    /// `1.21 (1.19–1.30) ≤ 1.25 ✓`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread { value, low, high } = self.spread;
        write!(f, "{value:>6.2} ({low:.2}–{high:.2})")?;
        match self.target {
            None => {}
            Some(Target::AtMost(most)) => write!(f, " ≤ {most}")?,
            Some(Target::AtLeast(least)) => write!(f, " ≥ {least}")?,
        }
        match self.holds {
            None => Ok(()),
            Some(true) => write!(f, " ✓"),
            Some(false) => write!(f, " ✗"),
        }
    }
}

impl fmt::Display for Report {
    /// A table for each setting.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { cpu, cores, caches, kernel, onedraw, date } = &self.machine;
        let cpu = cpu.as_deref().unwrap_or("an unknown processor");
        writeln!(
            f,
            "onedraw {onedraw} with {kernel} on {cpu}, {cores} cores, {}; {date}",
            caches.join(", ")
        )?;
        writeln!(
            f,
            "µs a row; × is the mean in floors, a floor being one bare max-scan of the f32 row: median of the rounds (lowest–highest)"
        )?;
        let mut setting = None;
        for line in &self.lines {
            if setting != Some(&line.setting) {
                setting = Some(&line.setting);
                writeln!(f, "\n{}", line.setting)?;
                writeln!(
                    f,
                    "{:<44}{:>9}{:>9}{:>9}{:>9}{:>9}  ×",
                    "", "mean", "median", "p10", "p90", "floor"
                )?;
            }
            writeln!(f, "{line}")?;
        }
        let judged = self.lines.iter().flat_map(|line| {
            [Some(line.ratio), line.speed_up, line.to_f32, line.to_other.map(|other| other.ratio)]
        });
        let verdicts: Vec<bool> = judged.flatten().filter_map(|judged| judged.holds).collect();
        match verdicts.len() {
            0 => Ok(()),
            count => {
                let held = verdicts.iter().filter(|holds| **holds).count();
                writeln!(f, "\n{held} of {count} targets hold")
            }
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, element, vocabulary, cache, batch, threads } = self;
        write!(f, "{rows} rows of {vocabulary} {element}, {cache}")?;
        match (batch, threads) {
            (1, _) => Ok(()),
            (batch, 1) => write!(f, ", batches of {batch} on one thread"),
            (batch, threads) => write!(f, ", batches of {batch} on {threads} threads"),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { strategy, mean, median, p10, p90, floor_mean, ratio, .. } = self;
        write!(f, "{strategy:<44}{mean:>9.1}{median:>9.1}{p10:>9.1}{p90:>9.1}{floor_mean:>9.2}  {ratio}")?;
        if let Some(speed_up) = &self.speed_up {
            write!(f, "   speed-up {speed_up}")?;
        }
        if let Some(to_f32) = &self.to_f32 {
            write!(f, "   of f32 {to_f32}")?;
        }
        match &self.to_other {
            Some(ToOther { other, ratio }) => write!(f, "   of {other} {ratio}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_judged_by_its_value() {
        let spread = Spread { value: 1.2, low: 1.1, high: 1.9 };
        let text = |target| Judged::new(spread, target).to_string();
        assert_eq!(text(None), "  1.20 (1.10–1.90)");
        assert_eq!(text(Some(Target::AtMost(1.25))), "  1.20 (1.10–1.90) ≤ 1.25 ✓");
        assert_eq!(text(Some(Target::AtLeast(1.8))), "  1.20 (1.10–1.90) ≥ 1.8 ✗");
        let json = serde_json::to_value(Judged::new(spread, Some(Target::AtMost(1.0)))).expect("JSON");
        assert_eq!(
            json,
            serde_json::json!({"value": 1.2, "low": 1.1, "high": 1.9, "target": {"at_most": 1.0}, "holds": false})
        );
    }
}
