//! Audits to be read in a terminal.

use std::fmt;
use std::io::{self, Write};

use onedraw::verdict::Verdict;
use onedraw_lm::Tokenizer;
use onedraw_lm::audit::{Checked, Diagnosis, TextAudit};

use super::line::{Audited, meaning, verdict};
use crate::exit::one_line;
use crate::plot::label::label;

/// The tokens that are named of a text.
const NAMED: usize = 5;

/// The borders of the distribution of distances, in logits.
const BORDERS: [f64; 5] = [0.01, 0.1, 0.5, 1.0, 3.0];

/// How many tokens are equal, and how far away the others are.
#[derive(Default)]
struct Distances {
    tokens: usize,
    equal: usize,
    /// Tokens that are not the drawn ones, by distance: below each border, and from the last on.
    counts: [usize; BORDERS.len() + 1],
}

impl Distances {
    fn add(&mut self, audit: &TextAudit) {
        self.tokens += audit.tokens.len();
        self.equal += audit.equal();
        for token in audit.tokens.iter().filter(|token| !token.audit.is_drawn()) {
            let distance = token.audit.distance;
            self.counts[BORDERS.iter().take_while(|&&border| distance >= border).count()] += 1;
        }
    }
}

impl fmt::Display for Distances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} tokens equal", self.equal, self.tokens)?;
        if self.equal < self.tokens {
            let below = BORDERS.iter().map(|border| format!("below {border}"));
            let last = format!("{} and above", BORDERS[BORDERS.len() - 1]);
            let named: Vec<String> = below
                .chain([last])
                .zip(self.counts)
                .filter(|(_, count)| *count > 0)
                .map(|(name, count)| format!(" {name}: {count}"))
                .collect();
            write!(f, "; the others are away, in logits,{}", named.join(","))?;
        }
        Ok(())
    }
}

/// What came of all lines.
#[derive(Default)]
pub struct Sum {
    lines: usize,
    /// Lines by verdict: same, arithmetic, other.
    verdicts: [usize; 3],
    unchecked: usize,
    bad: usize,
    distances: Distances,
}

impl Sum {
    pub fn add(&mut self, audited: &Audited) {
        self.lines += 1;
        match audited {
            Audited::Bad(_) => self.bad += 1,
            Audited::NotReplayable { .. } => self.unchecked += 1,
            Audited::Text(audit) => {
                match verdict(audit) {
                    Some(verdict) => self.verdicts[verdict as usize] += 1,
                    None => self.unchecked += 1,
                }
                self.distances.add(audit);
            }
        }
    }

    /// Whether no text is something else and no line is bad.
    pub fn is_good(&self) -> bool {
        self.bad == 0 && self.verdicts[Verdict::Other as usize] == 0
    }

    pub fn write(&self, out: &mut impl Write, false_alarms: f64) -> io::Result<()> {
        let [same, arithmetic, other] = self.verdicts;
        let Self { lines, unchecked, bad, distances, .. } = self;
        let noun = if *lines == 1 { "line" } else { "lines" };
        writeln!(
            out,
            "{lines} {noun}: {same} same, {arithmetic} arithmetic, {other} other, {unchecked} not checked, {bad} bad; false-alarm rate {false_alarms}"
        )?;
        writeln!(out, "{distances}")
    }
}

/// A line of the trace.
pub fn write(out: &mut impl Write, line: usize, audited: &Audited, tokenizer: &Tokenizer) -> io::Result<()> {
    match audited {
        Audited::Bad(error) => writeln!(out, "line {line}: error: {}", one_line(error)),
        Audited::NotReplayable { tokens, why } => {
            writeln!(out, "line {line}: not checked: cannot be drawn again ({why}); {tokens} tokens")
        }
        Audited::Text(audit) => text(out, line, audit, tokenizer),
    }
}

fn text(out: &mut impl Write, line: usize, audit: &TextAudit, tokenizer: &Tokenizer) -> io::Result<()> {
    let TextAudit { tokens, forced, left_constraint, judgement, is_far, diagnosis } = audit;
    let mut distances = Distances::default();
    distances.add(audit);
    write!(out, "line {line}: {}; {distances}", meaning(verdict(audit)))?;
    if *forced > 0 {
        write!(out, "; {forced} forced")?;
    }
    writeln!(out)?;
    if judgement.verdict == Verdict::Other {
        let count = judgement.places.len();
        if *is_far && left_constraint.is_none() {
            let noun = if count == 1 { "token is" } else { "tokens are" };
            writeln!(
                out,
                "  {count} {noun} {} or more away from the drawn ones, in logits; other arithmetic makes as many with a chance of at most {:.1e}",
                judgement.beyond, judgement.chance
            )?;
        }
        if let Some(found) = diagnosis {
            writeln!(
                out,
                "  {}; other arithmetic looks like that with a chance of at most {:.1e}",
                explained(found, tokens.len()),
                found.chance
            )?;
        }
        for &token in judgement.places.iter().take(NAMED) {
            writeln!(out, "  {}", one(&tokens[token], tokenizer))?;
        }
        if count > NAMED {
            let rest: Vec<String> =
                audit.places()[NAMED..].iter().take(20).map(|place| place.to_string()).collect();
            let dots = if count > NAMED + rest.len() { " …" } else { "" };
            writeln!(out, "  and output tokens {}{dots}", rest.join(", "))?;
        }
    }
    if let Some(place) = left_constraint {
        writeln!(
            out,
            "  output token {place} is not allowed by the constraint; nothing after it was compared"
        )?;
    }
    Ok(())
}

/// Which parameter explains a text of so many tokens.
pub fn explained(found: &Diagnosis, tokens: usize) -> String {
    let Diagnosis { parameter, value, compared, equal, .. } = found;
    let first = if *compared < tokens { "the first " } else { "" };
    format!("with {parameter} {value}, {equal} of {first}{compared} tokens are equal")
}

/// A token that says so.
fn one(token: &Checked, tokenizer: &Tokenizer) -> String {
    let onedraw::Audit { token: claimed, drawn, gap, is_kept, outside, .. } = token.audit;
    let (claimed, drawn) = (label(Some(tokenizer), claimed), label(Some(tokenizer), drawn));
    let kept = if is_kept { String::new() } else { format!(", and is {outside:.2} outside of what is kept") };
    format!("output token {}: {claimed}; {drawn} is drawn, ahead by {gap:.2} nats{kept}", token.place)
}
