//! Colours, sizes of letters, and where a text stands.

use plotters::style::{RGBColor, WHITE};

/// The size of the font, in pixels of an SVG.
pub const TEXT: f64 = 12.0;
/// The size of the font of notes and numbers.
pub const SMALL: f64 = 11.0;
/// The width of a letter of a font of size 1: DejaVu Sans Mono has 0.602, and another font may be a little
/// wider.
pub const LETTER: f64 = 0.61;

/// A colour. They can be told apart by people who do not see red or green, and in print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Ink,
    /// The background.
    White,
    /// For notes, and for tokens that are not there.
    Grey,
    /// For rules and frames.
    Pale,
    Blue,
    /// For the token that was drawn, or the text that won.
    Orange,
    /// For tokens that a stage removes.
    Rose,
}

impl Colour {
    pub(super) fn rgb(self) -> RGBColor {
        match self {
            Self::Ink => RGBColor(0x22, 0x22, 0x22),
            Self::White => WHITE,
            Self::Grey => RGBColor(0x76, 0x76, 0x76),
            Self::Pale => RGBColor(0xd8, 0xd8, 0xd8),
            Self::Blue => RGBColor(0x3b, 0x6e, 0xa5),
            Self::Orange => RGBColor(0xd9, 0x5f, 0x02),
            Self::Rose => RGBColor(0xe9, 0xc3, 0xc3),
        }
    }
}

/// Which end of a text its point marks. The point is always in the middle of the height of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
    /// The text is written upwards, and the point is at its end.
    UpwardsEnd,
}
