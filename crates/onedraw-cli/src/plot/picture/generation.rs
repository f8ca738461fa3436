//! A generation from left to right: three rows of bars over the same tokens.

use onedraw::math::ln;

use crate::plot::generation::Generation;
use crate::plot::label::LONGEST;
use crate::plot::picture::{Anchor, Colour, LETTER, Picture, SMALL, TEXT};
use crate::redrawn::Redrawn;

/// Space around the picture.
const MARGIN: f64 = 16.0;
/// The width of the numbers on the axis.
const LEFT: f64 = 76.0;
/// The height of the bars of one band.
const BAND: f64 = 96.0;
/// The height of a band with its heading and the space above it.
const PITCH: f64 = BAND + 34.0;
/// The most that the bars of all tokens together take.
const WIDEST: f64 = 1800.0;

/// One row of bars.
struct Band {
    heading: &'static str,
    /// Where the bar of a token ends, between 0 and 1.
    height: Box<dyn Fn(&Redrawn) -> f64>,
    /// What the axis says at which height.
    ticks: Vec<(f64, String)>,
}

pub fn picture(generation: &Generation) -> Picture {
    let count = generation.tokens.len().max(1) as f64;
    let step = (WIDEST / count).clamp(2.0, 18.0);
    // Labels need room.
    let are_named = step >= 14.0;
    let longest = generation.labels.iter().map(|label| label.chars().count()).max().unwrap_or(0).min(LONGEST);
    let words = if are_named { longest as f64 * LETTER * TEXT + 8.0 } else { 24.0 };
    let bands = bands(&generation.tokens);
    let top = MARGIN + 30.0;
    let width = MARGIN + LEFT + count * step + MARGIN;
    let title = 2.0 * MARGIN + generation.title.chars().count() as f64 * LETTER * TEXT;
    let mut picture = Picture::new(width.max(title).max(420.0), top + 3.0 * PITCH + words + MARGIN);
    picture.text((MARGIN, MARGIN + 8.0), generation.title.as_str(), Anchor::Start, Colour::Ink);
    let x = MARGIN + LEFT;
    for (place, band) in bands.iter().enumerate() {
        let y = top + place as f64 * PITCH + 26.0;
        picture.text((x, y - 14.0), band.heading, Anchor::Start, Colour::Ink);
        for (height, words) in &band.ticks {
            let at = y + BAND * (1.0 - height);
            picture.line(vec![(x, at), (x + count * step, at)], Colour::Pale, 1);
            picture.sized_text((x - 6.0, at), words.as_str(), Anchor::End, Colour::Grey, SMALL);
        }
        for (place, of) in generation.tokens.iter().enumerate() {
            let height = BAND * (band.height)(of).clamp(0.0, 1.0);
            let air = if step > 4.0 { 2.0 } else { 0.0 };
            let size = (step - air, height.max(1.0));
            picture.bar((x + place as f64 * step, y + BAND - size.1), size, Colour::Blue);
        }
    }
    let below = top + 3.0 * PITCH;
    if are_named {
        for (place, label) in generation.labels.iter().enumerate() {
            let middle = x + (place as f64 + 0.5) * step - 1.0;
            picture.sized_text((middle, below), label.as_str(), Anchor::UpwardsEnd, Colour::Ink, SMALL);
        }
    } else {
        let apart = (generation.tokens.len() / 10).max(1);
        for place in (0..generation.tokens.len()).step_by(apart) {
            let at = (x + (place as f64 + 0.5) * step, below + 8.0);
            picture.sized_text(at, place.to_string(), Anchor::Middle, Colour::Grey, SMALL);
        }
    }
    picture
}

fn bands(tokens: &[Redrawn]) -> [Band; 3] {
    let bits = tokens.iter().map(|token| token.entropy).fold(1.0, f64::max).ceil();
    // Powers of ten up to the most tokens.
    let most = tokens.iter().map(|token| token.kept).max().unwrap_or(1).max(10);
    let decades = (0..10).find(|power| 10_usize.pow(*power) >= most).unwrap_or(9);
    let tens = f64::from(decades);
    [
        Band {
            heading: "probability of the token that was drawn",
            height: Box::new(|token| token.probability),
            ticks: [0.0, 0.5, 1.0].map(|p| (p, format!("{:.0}%", 100.0 * p))).to_vec(),
        },
        Band {
            heading: "entropy of the step, bits",
            height: Box::new(move |token| token.entropy / bits),
            ticks: [0.0, 0.5, 1.0].map(|share| (share, format!("{}", share * bits))).to_vec(),
        },
        Band {
            heading: "tokens that could be drawn",
            height: Box::new(move |token| ln(token.kept.max(1) as f64) / ln(10.0) / tens),
            ticks: (0..=decades)
                .map(|power| (f64::from(power) / tens, 10_usize.pow(power).to_string()))
                .collect(),
        },
    ]
}
