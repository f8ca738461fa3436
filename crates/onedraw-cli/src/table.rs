//! Results as aligned columns.
//!
//! Columns have fixed widths that fit every value a token, a seed or a position can have, so that lines can
//! be written as they come.

use std::io::{self, Write};

use onedraw::{Border, Distribution, Kept, RowError, Sampled, TokenLogprob};

/// How many tokens of a distribution are shown.
pub const TOKENS_SHOWN: usize = 50;

/// Writes lines, with the names of the columns above the first.
#[derive(Debug)]
pub struct Table {
    has_sequences: bool,
    is_headed: bool,
}

/// The cells of one line, as text. An absent value is `-`; a cell that does not apply is empty.
#[derive(Default)]
struct DrawCells {
    row: String,
    draw: String,
    sequence: String,
    token: String,
    logprob: String,
    probability: String,
    rank: String,
    seed: String,
    position: String,
}

impl Table {
    /// `has_sequences`: whether draws have a column for their sequence.
    pub fn new(has_sequences: bool) -> Self {
        Self { has_sequences, is_headed: false }
    }

    /// One drawn token, and below it the list of logprobs that was asked for.
    pub fn draw(
        &mut self,
        out: &mut impl Write,
        row: usize,
        draw: u32,
        sampled: &Sampled,
        logprobs: Option<&[TokenLogprob]>,
    ) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_headed, true) {
            self.draw_line(out, &DrawCells::names())?;
        }
        self.draw_line(
            out,
            &DrawCells {
                row: row.to_string(),
                draw: draw.to_string(),
                sequence: sampled.sequence.to_string(),
                token: sampled.token.to_string(),
                logprob: sampled.logprob.map_or("-".to_owned(), number),
                probability: sampled.probability.map_or("-".to_owned(), number),
                rank: sampled.rank.map_or("-".to_owned(), |rank| rank.to_string()),
                seed: sampled.seed.to_string(),
                position: sampled.position.to_string(),
            },
        )?;
        for entry in logprobs.unwrap_or_default() {
            let cells = DrawCells {
                token: entry.token.to_string(),
                logprob: number(entry.logprob),
                rank: entry.rank.to_string(),
                ..DrawCells::default()
            };
            self.draw_line(out, &cells)?;
        }
        match &sampled.kept {
            Some(kept) => writeln!(out, "   {}", kept_tokens(kept)),
            None => Ok(()),
        }
    }

    /// The best tokens of a row, and how many more there are.
    pub fn distribution(
        &mut self,
        out: &mut impl Write,
        row: usize,
        distribution: &Distribution,
    ) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_headed, true) {
            distribution_line(out, ["row", "rank", "token", "probability", "logprob"].map(str::to_owned))?;
        }
        let numbers = distribution.probabilities.iter().zip(&distribution.logprobs);
        let lines = distribution.tokens.iter().zip(numbers).enumerate();
        for (before, (token, (&probability, &logprob))) in lines.take(TOKENS_SHOWN) {
            let (row, rank, token) = (row.to_string(), (before + 1).to_string(), token.to_string());
            distribution_line(out, [row, rank, token, number(probability), number(logprob)])?;
        }
        match distribution.tokens.len().saturating_sub(TOKENS_SHOWN) {
            0 => Ok(()),
            hidden => writeln!(out, "row {row}: … {hidden} more (--format json prints all)"),
        }
    }

    /// A row that could not be sampled.
    pub fn error(&mut self, out: &mut impl Write, row: usize, error: &RowError) -> io::Result<()> {
        writeln!(out, "row {row}: error {}: {error}", error.kind())
    }

    fn draw_line(&self, out: &mut impl Write, cells: &DrawCells) -> io::Result<()> {
        let DrawCells { row, draw, sequence, token, logprob, probability, rank, seed, position } = cells;
        write!(out, "{row:>6}  {draw:>6}  ")?;
        if self.has_sequences {
            write!(out, "{sequence:>8}  ")?;
        }
        let line =
            format!("{token:>7}  {logprob:>12}  {probability:>11}  {rank:>7}  {seed:>20}  {position:>10}");
        writeln!(out, "{}", line.trim_end())
    }
}

impl DrawCells {
    fn names() -> Self {
        Self {
            row: "row".to_owned(),
            draw: "draw".to_owned(),
            sequence: "sequence".to_owned(),
            token: "token".to_owned(),
            logprob: "logprob".to_owned(),
            probability: "probability".to_owned(),
            rank: "rank".to_owned(),
            seed: "seed".to_owned(),
            position: "position".to_owned(),
        }
    }
}

fn distribution_line(out: &mut impl Write, cells: [String; 5]) -> io::Result<()> {
    let [row, rank, token, probability, logprob] = cells;
    writeln!(out, "{row:>6}  {rank:>7}  {token:>7}  {probability:>11}  {logprob:>12}")
}

fn number(value: f64) -> String {
    // Adding 0 turns -0 into 0.
    format!("{:.6}", value + 0.0)
}

/// What a draw could have come to, in one line.
fn kept_tokens(kept: &Kept) -> String {
    /// The ids that are named.
    const NAMED: usize = 20;
    let mut text = format!("kept {} tokens, logarithm of their mass {:.6}", kept.count, kept.ln_mass);
    if let Some(Border { token, logit }) = kept.last {
        text += &format!(", the last {token} with the logit {logit}");
    }
    if let Some(ids) = &kept.ids {
        let named: Vec<String> = ids.iter().take(NAMED).map(u32::to_string).collect();
        let more = if ids.len() > NAMED { ", … (--format json prints all)" } else { "" };
        text += &format!(": {}{more}", named.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).expect("a Vec takes everything");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn a_distribution_ends_after_fifty_tokens() {
        let distribution = Distribution {
            tokens: (0..53).collect(),
            probabilities: vec![1.0 / 53.0; 53],
            logprobs: vec![-3.970292; 53],
        };
        let text = text(|out| Table::new(false).distribution(out, 4, &distribution));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 52);
        assert_eq!(lines[0], "   row     rank    token  probability       logprob");
        assert_eq!(lines[50], "     4       50       49     0.018868     -3.970292");
        assert_eq!(lines[51], "row 4: … 3 more (--format json prints all)");
    }

    #[test]
    fn the_widest_values_stay_in_their_columns() {
        let mut table = Table::new(true);
        let sampled = Sampled {
            token: (1 << 20) - 1,
            seed: u64::MAX,
            position: u32::MAX,
            sequence: 7,
            probability: None,
            logprob: Some(f64::NEG_INFINITY),
            rank: Some(1 << 20),
            logprobs: vec![],
            mirostat_mu: None,
            kept: None,
        };
        let list = [TokenLogprob { token: 3, logprob: -0.5, rank: 1 }];
        let last = Some(Border { token: 9, logit: -1.5 });
        let kept = Some(Kept { count: 2, last, ln_mass: 0.25, ids: Some(vec![3, 9]) });
        let sampled = Sampled { kept, ..sampled };
        let text = text(|out| table.draw(out, 511, 9999, &sampled, Some(&list)));
        let expected = [
            "   row    draw  sequence    token       logprob  probability     rank                  seed    position",
            "   511    9999         7  1048575          -inf            -  1048576  18446744073709551615  4294967295",
            "                                3     -0.500000                     1",
            "   kept 2 tokens, logarithm of their mass 0.250000, the last 9 with the logit -1.5: 3, 9",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_error_is_a_line_of_its_own() {
        let text = text(|out| Table::new(false).error(out, 2, &RowError::EmptyRow));
        assert_eq!(text, "row 2: error empty_row: the row has no logits; at least one is needed\n");
    }
}
