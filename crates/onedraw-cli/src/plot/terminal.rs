//! The figures in the terminal.

use std::io::{self, Write};

use onedraw::beam::Fate;

use crate::plot::generation::Generation;
use crate::plot::label::LONGEST;
use crate::plot::panels::{Bar, Panels, percent};
use crate::plot::tree::{ENDS, Tree};

/// The length of the longest bar, in characters.
const LENGTH: usize = 16;
/// Panels side by side. With the names of the tokens they take 92 columns.
const ACROSS: usize = 3;

/// Panels, three side by side.
pub fn panels(out: &mut impl Write, figure: &Panels, labels: &[String]) -> io::Result<()> {
    writeln!(out, "{}", figure.title)?;
    let highest = figure.highest();
    let others = figure.has_others().then(|| "others".to_owned());
    let labels: Vec<&String> = labels.iter().chain(&others).collect();
    for panels in figure.panels.chunks(ACROSS) {
        writeln!(out)?;
        let row = |label: &str, cells: Vec<String>| {
            let cells: String = cells.iter().map(|cell| format!("  {cell:<24}")).collect();
            format!("{label:>LONGEST$}{cells}").trim_end().to_owned()
        };
        writeln!(out, "{}", row("", panels.iter().map(|panel| panel.heading.clone()).collect()))?;
        let notes = panels.iter().map(|panel| panel.notes.len()).max().unwrap_or(0);
        for line in 0..notes {
            let cells = panels.iter().map(|panel| panel.notes.get(line).cloned().unwrap_or_default());
            writeln!(out, "{}", row("", cells.collect()))?;
        }
        for (place, label) in labels.iter().enumerate() {
            writeln!(
                out,
                "{}",
                row(label, panels.iter().map(|panel| cell(panel.bars[place], highest)).collect())
            )?;
        }
    }
    Ok(())
}

fn cell(bar: Bar, highest: f64) -> String {
    let mut shown = strip(bar.probability() / highest, LENGTH);
    if bar.probability() > 1.001 * highest {
        // The bar is broken off: it is longer than shown.
        shown = format!("{}╱╱", strip(1.0, LENGTH - 2));
    }
    match bar {
        Bar::Stays(p) => format!("{shown} {}", percent(p)),
        Bar::Drawn(p) => format!("{shown} {} ←", percent(p)),
        Bar::Goes(_) => format!(
            "{} gone",
            strip(bar.probability() / highest, LENGTH).replace(['█', '▉', '▊', '▋', '▌', '▍', '▎', '▏'], "░")
        ),
        Bar::Absent => "–".to_owned(),
    }
}

/// A share as a bar: whole blocks, and a last one in eighths.
fn strip(share: f64, length: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * 8.0 * length as f64).round() as usize;
    // Anything above 0 can be seen.
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// A generation, one line per token.
pub fn generation(out: &mut impl Write, generation: &Generation) -> io::Result<()> {
    let bits = generation.tokens.iter().map(|token| token.entropy).fold(1.0, f64::max);
    writeln!(out, "{}\n", generation.title)?;
    writeln!(
        out,
        "{:>4} {:<LONGEST$}  {:<27}{:<25}{:>7}",
        "step", "token", "probability", "entropy, bits", "kept"
    )?;
    for (place, (token, label)) in generation.tokens.iter().zip(&generation.labels).enumerate() {
        let probability = format!("{:<16} {}", strip(token.probability, LENGTH), percent(token.probability));
        let entropy = format!("{:<16} {:.2}", strip(token.entropy / bits, LENGTH), token.entropy);
        writeln!(out, "{place:>4} {label:<LONGEST$}  {probability:<27}{entropy:<25}{:>7}", token.kept)?;
    }
    Ok(())
}

/// A tree, one line per node: `*` on the best text, `·` for a node that was dropped, and its end, if any.
pub fn tree(out: &mut impl Write, tree: &Tree, labels: &[String]) -> io::Result<()> {
    writeln!(out, "{}\n", tree.title)?;
    // For each ancestor, whether another child of it is still to come.
    let mut open: Vec<bool> = Vec::new();
    for (node, depth) in tree.walk() {
        let of = &tree.nodes[node];
        let siblings = of.parent.map_or(&tree.roots, |parent| &tree.nodes[parent].children);
        let is_last = siblings.last() == Some(&node);
        open.truncate(depth);
        let before: String = open.iter().map(|open| if *open { "│  " } else { "   " }).collect();
        open.push(!is_last);
        let branch = if is_last { "└─" } else { "├─" };
        let mark = match of.fate {
            _ if of.is_best => "*",
            Fate::Kept | Fate::Ended | Fate::Cut => " ",
            Fate::Dropped => "·",
        };
        writeln!(out, "{before}{branch}{mark}{} {:.2}{}", labels[node], of.score, of.end())?;
    }
    writeln!(out, "\n* on the best text   · dropped   {ENDS}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_shares() {
        assert_eq!(strip(1.0, 4), "████");
        assert_eq!(strip(0.5, 3), "█▌");
        assert_eq!(strip(1e-9, 4), "▏");
        assert_eq!(strip(0.0, 4), "");
    }
}
