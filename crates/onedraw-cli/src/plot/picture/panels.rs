//! Panels in a grid, with the tokens at the left of each row of panels.

use crate::plot::label::LONGEST;
use crate::plot::panels::{Bar, Panel, Panels, percent};
use crate::plot::picture::{Anchor, Colour, LETTER, Picture, SMALL, TEXT};

/// The most panels side by side.
const ACROSS: usize = 5;
/// Space around the picture.
const MARGIN: f64 = 16.0;
/// The height of one token.
const ROW: f64 = 20.0;
/// The height of a bar.
const THICKNESS: f64 = 13.0;
/// The length of the longest bar.
const LENGTH: f64 = 130.0;
/// The width of a percentage, with space around it.
const NUMBER: f64 = 62.0;

/// Paints panels. `labels` are those of the figure's tokens.
pub fn picture(figure: &Panels, labels: &[String]) -> Picture {
    let mut labels = labels.to_vec();
    if figure.has_others() {
        labels.push("others".to_owned());
    }
    let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0).min(LONGEST);
    let left = MARGIN + longest as f64 * LETTER * TEXT + 8.0;
    let notes = figure.panels.iter().map(|panel| panel.notes.len()).max().unwrap_or(0);
    let head = ROW + notes as f64 * 16.0 + 8.0;
    let down = figure.panels.len().div_ceil(ACROSS).max(1);
    // Rows of equal length: six panels are three above three, not five above one.
    let across = figure.panels.len().div_ceil(down).max(1);
    let (width, height) = (LENGTH + NUMBER, head + labels.len() as f64 * ROW + MARGIN);
    let top = MARGIN + 30.0;
    // The picture is at least as wide as its title.
    let words = 2.0 * MARGIN + figure.title.chars().count() as f64 * LETTER * TEXT;
    let mut picture =
        Picture::new((left + across as f64 * width + MARGIN).max(words), top + down as f64 * height);
    picture.text((MARGIN, MARGIN + 8.0), figure.title.as_str(), Anchor::Start, Colour::Ink);
    let scale = LENGTH / figure.highest();
    for (place, panel) in figure.panels.iter().enumerate() {
        let x = left + (place % across) as f64 * width;
        let y = top + (place / across) as f64 * height;
        if place.is_multiple_of(across) {
            for (row, label) in labels.iter().enumerate() {
                let middle = y + head + (row as f64 + 0.5) * ROW;
                let colour = if row < figure.tokens.len() { Colour::Ink } else { Colour::Grey };
                picture.text((left - 8.0, middle), label.as_str(), Anchor::End, colour);
            }
        }
        paint(&mut picture, panel, figure.tokens.len(), (x, y), head, scale);
    }
    picture
}

fn paint(picture: &mut Picture, panel: &Panel, tokens: usize, (x, y): (f64, f64), head: f64, scale: f64) {
    picture.text((x, y + 0.5 * ROW), panel.heading.as_str(), Anchor::Start, Colour::Ink);
    for (line, note) in panel.notes.iter().enumerate() {
        let middle = y + ROW + (line as f64 + 0.5) * 16.0;
        picture.sized_text((x, middle), note.as_str(), Anchor::Start, Colour::Grey, SMALL);
    }
    let bottom = y + head + panel.bars.len() as f64 * ROW;
    picture.line(vec![(x, y + head), (x, bottom)], Colour::Pale, 1);
    for (row, bar) in panel.bars.iter().enumerate() {
        let above = y + head + row as f64 * ROW;
        let (colour, ink, words) = match bar {
            Bar::Stays(p) if row >= tokens => (Colour::Pale, Colour::Grey, percent(*p)),
            Bar::Stays(p) => (Colour::Blue, Colour::Ink, percent(*p)),
            Bar::Drawn(p) => (Colour::Orange, Colour::Orange, percent(*p)),
            Bar::Goes(_) => (Colour::Rose, Colour::Grey, "gone".to_owned()),
            Bar::Absent => (Colour::Pale, Colour::Grey, "–".to_owned()),
        };
        let length = (scale * bar.probability()).min(LENGTH);
        let top = above + 0.5 * (ROW - THICKNESS);
        if length > 0.0 {
            picture.bar((x, top), (length.max(1.0), THICKNESS), colour);
        }
        if scale * bar.probability() > 1.001 * LENGTH {
            // The bar is broken off: it is longer than shown.
            for from in [LENGTH - 18.0, LENGTH - 12.0] {
                let slash = vec![(x + from, top + THICKNESS + 2.0), (x + from + 6.0, top - 2.0)];
                picture.line(slash, Colour::White, 2);
            }
        }
        picture.sized_text((x + length + 5.0, above + 0.5 * ROW), words, Anchor::Start, ink, SMALL);
    }
}
