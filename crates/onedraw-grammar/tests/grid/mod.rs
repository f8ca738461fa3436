//! The grid: settings × drafters × trees × batches. Every row has one hash, of texts, tokens and logprobs, whoever
//! guesses.
//!
//! A test makes a selection with short texts. With `ONEDRAW_GRID=FILE` in the environment it makes the whole product, and
//! writes it as Markdown; `bench/grid/run` does that, and adds the same rows in other systems.

mod columns;
mod report;
mod rows;

use columns::{Cell, Counts, Extent, cell, hash, plain};
use rows::Row;

use crate::drafters::{KINDS, Kind, Models};

/// All that was written.
struct Grid {
    kinds: Vec<Kind>,
    rows: Vec<Written>,
}

/// A row, and what was written for it.
struct Written {
    row: Row,
    /// The texts of plain decoding, and their hash.
    plain: Vec<String>,
    hash: String,
    /// One for each drafter.
    cells: Vec<Cell>,
}

impl Grid {
    fn new(extent: Extent) -> Self {
        let models = Models::new();
        let (rows, batches) = rows::read();
        let mut written = Vec::new();
        for (number, row) in rows.into_iter().enumerate() {
            let texts = plain(&models, &row, &batches, extent);
            let cells = KINDS.into_iter().enumerate();
            written.push(Written {
                cells: cells
                    .map(|column| cell(&models, &batches, (number, &row, &texts), column, extent))
                    .collect(),
                hash: hash(&texts),
                plain: texts.into_iter().flatten().map(|text| text.text).collect(),
                row,
            });
        }
        Self { kinds: KINDS.to_vec(), rows: written }
    }

    /// What became of the guesses of a drafter in these rows.
    fn counts(&self, column: usize, which: impl Fn(&Row) -> bool) -> Counts {
        let mut counts = Counts::default();
        for written in self.rows.iter().filter(|written| which(&written.row)) {
            counts.add(written.cells[column].counts);
        }
        counts
    }
}

#[test]
fn every_row_has_one_hash() {
    let file = std::env::var_os("ONEDRAW_GRID");
    let grid = Grid::new(if file.is_some() { Extent::Whole } else { Extent::Selection });
    if let Some(file) = file {
        std::fs::write(&file, report::markdown(&grid)).expect("a file for the grid");
    }
    for Written { row, cells, .. } in &grid.rows {
        for (kind, cell) in grid.kinds.iter().zip(cells) {
            let (name, hashes) = (&row.name, cell.hashes());
            assert!(cell.holds(), "{name}, {kind:?}: {hashes:?}, without guesses {}", cell.plain);
        }
    }
    rows_differ(&grid);
    drafters_guess(&grid);
}

/// Settings that changed no text would prove nothing. Logprobs change none, and are in the hash.
fn rows_differ(grid: &Grid) {
    for (place, one) in grid.rows.iter().enumerate() {
        for other in &grid.rows[..place] {
            let names = (&one.row.name, &other.row.name);
            let is_same = one.row.text_of.as_ref() == Some(&other.row.name);
            assert_eq!(one.plain == other.plain, is_same, "{names:?}");
            assert_ne!(one.hash, other.hash, "{names:?}");
        }
    }
}

/// Nor would guesses that nobody made, or that never held where they are good, or always.
fn drafters_guess(grid: &Grid) {
    for (column, kind) in grid.kinds.iter().enumerate() {
        let Counts { guesses, judged, held, .. } = grid.counts(column, |row| !row.is_bound());
        let said = format!("{kind:?}: of {guesses} guesses {held} held at {judged} places");
        assert!(guesses > 50 && judged > 50, "{said}");
        let is_right = match kind {
            Kind::Companion | Kind::EarlyExit(_) | Kind::Eagle => held > judged / 3,
            Kind::Ngram => held > judged / 20,
            Kind::Random | Kind::Adversary => held < judged / 50,
            // It guesses among the frequent tokens alone.
            Kind::Target => held > judged * 9 / 10,
        };
        assert!(is_right, "{said}");
    }
}
