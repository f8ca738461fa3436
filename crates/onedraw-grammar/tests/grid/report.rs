//! The grid as Markdown.

use super::columns::{Cell, Counts};
use super::{Grid, Written};
use crate::drafters::Kind;

/// What a drafter is called in the grid.
fn name(kind: Kind) -> String {
    match kind {
        Kind::Companion => "drafter".to_owned(),
        Kind::EarlyExit(layers) => format!("early exit {layers}"),
        Kind::Eagle => "EAGLE".to_owned(),
        Kind::Ngram => "n-gram".to_owned(),
        Kind::Random => "random".to_owned(),
        Kind::Adversary => "adversary".to_owned(),
        Kind::Target => "itself".to_owned(),
    }
}

/// A table of hashes, then what was guessed.
pub fn markdown(grid: &Grid) -> String {
    let names: Vec<String> = grid.kinds.iter().map(|&kind| name(kind)).collect();
    let mut page = line(["settings", "none"].into_iter().chain(names.iter().map(String::as_str)));
    page += &format!("|---|{}\n", "---|".repeat(names.len() + 1));
    for Written { row, hash, cells, .. } in &grid.rows {
        page += &line([row.name.clone(), format!("`{hash}`")].into_iter().chain(cells.iter().map(shown)));
    }
    let cells: Vec<&Cell> = grid.rows.iter().flat_map(|written| &written.cells).collect();
    let sum = |count: fn(&Cell) -> usize| cells.iter().map(|cell| count(cell)).sum::<usize>();
    page += &format!(
        "\n{} of {} cells have their row's hash. With guesses {} texts of {} tokens were written.\n\n",
        sum(|cell| usize::from(cell.holds())),
        cells.len(),
        sum(|cell| cell.texts),
        sum(|cell| cell.tokens)
    );
    page += "| drafter | guesses | places where one held | tokens per pass |\n|---|---:|---:|---:|\n";
    for (column, name) in names.iter().enumerate() {
        let Counts { guesses, judged, held, passes, tokens } = grid.counts(column, |_| true);
        let percent = 100.0 * held as f64 / judged.max(1) as f64;
        page += &line([
            name.clone(),
            guesses.to_string(),
            format!("{held} of {judged} ({percent:.1} %)"),
            format!("{:.2}", tokens as f64 / passes.max(1) as f64),
        ]);
    }
    page
}

/// The hashes of a cell; those that are not their row's are bold.
fn shown(cell: &Cell) -> String {
    let shown =
        |hash: &&str| if **hash == cell.plain { format!("`{hash}`") } else { format!("**`{hash}`**") };
    cell.hashes().iter().map(shown).collect::<Vec<_>>().join(" ")
}

fn line(cells: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut line = String::from("|");
    for cell in cells {
        line += &format!(" {} |", cell.as_ref());
    }
    line + "\n"
}
