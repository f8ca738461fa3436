//! The comparison as a table and texts in a terminal.

use std::io::{self, Write};

use crate::compare::measure::Measured;

/// The columns after the strategy's name.
pub const HEADINGS: [&str; 11] =
    ["tokens", "tokens/s", "logprob", "perplexity", "d-1", "d-2", "d-3", "rep-4", "zip", "entropy", "kept"];

/// The numbers of a strategy, in the order of the headings.
pub fn cells(measured: &Measured) -> [String; 11] {
    let Measured { texts, tokens_per_second, logprob, perplexity, variety, entropy, kept, .. } = measured;
    let tokens: usize = texts.iter().map(|text| text.tokens.len()).sum();
    let or_dash =
        |number: Option<f64>, digits| number.map_or("-".to_owned(), |number| format!("{number:.digits$}"));
    [
        tokens.to_string(),
        format!("{tokens_per_second:.0}"),
        format!("{logprob:.2}"),
        format!("{perplexity:.2}"),
        format!("{:.2}", variety.distinct_1),
        format!("{:.2}", variety.distinct_2),
        format!("{:.2}", variety.distinct_3),
        format!("{:.2}", variety.rep_4),
        format!("{:.2}", variety.compression),
        or_dash(*entropy, 2),
        or_dash(*kept, 1),
    ]
}

/// A table, then the texts.
pub fn write(out: &mut impl Write, prompt: &str, measured: &[Measured]) -> io::Result<()> {
    let rows: Vec<(&str, [String; 11])> =
        measured.iter().map(|one| (one.strategy.as_str(), cells(one))).collect();
    let name = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max("strategy".len());
    let width = |column: usize| {
        rows.iter().map(|(_, cells)| cells[column].len()).max().unwrap_or(0).max(HEADINGS[column].len())
    };
    let widths: [usize; 11] = std::array::from_fn(width);
    let mut line = |first: &str, cells: &[&str]| {
        write!(out, "{first:<name$}")?;
        for (cell, width) in cells.iter().zip(widths) {
            write!(out, "  {cell:>width$}")?;
        }
        writeln!(out)
    };
    line("strategy", &HEADINGS)?;
    for (name, cells) in &rows {
        line(name, &cells.each_ref().map(String::as_str))?;
    }
    for one in measured {
        for text in &one.texts {
            writeln!(out, "\n--- {} ---\n{prompt}{}", one.strategy, text.text)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::measure::Text;
    use crate::compare::metrics::Variety;

    #[test]
    fn columns_stand_under_their_headings() {
        let text = |text: &str, tokens: Vec<u32>| Text { text: text.to_owned(), tokens, finish_reason: None };
        let variety =
            Variety { distinct_1: 0.5, distinct_2: 0.75, distinct_3: 1.0, rep_4: 0.125, compression: 1.5 };
        let one = |strategy: &str, entropy, kept| Measured {
            strategy: strategy.to_owned(),
            texts: vec![text(" there was", vec![1, 2])],
            tokens_per_second: 1234.4,
            logprob: -0.5,
            perplexity: 1.6487,
            variety,
            entropy,
            kept,
        };
        let mut out = Vec::new();
        write(&mut out, "Once", &[one("top-p 0.9", Some(1.25), Some(12.25)), one("beam 4", None, None)])
            .expect("written");
        let expected = "\
strategy   tokens  tokens/s  logprob  perplexity   d-1   d-2   d-3  rep-4   zip  entropy  kept
top-p 0.9       2      1234    -0.50        1.65  0.50  0.75  1.00   0.12  1.50     1.25  12.2
beam 4          2      1234    -0.50        1.65  0.50  0.75  1.00   0.12  1.50        -     -

--- top-p 0.9 ---
Once there was

--- beam 4 ---
Once there was
";
        assert_eq!(String::from_utf8(out).expect("UTF-8"), expected);
    }
}
