//! Words on pixels. They are painted here because plotters 0.3.7 places the ink of a glyph where its box
//! should begin, which pulls letters apart.

use ab_glyph::{Font, FontRef, Glyph, Point, PxScale, ScaleFont, point};

use super::style::Anchor;

/// A grid of red, green and blue, from the top left.
pub struct Pixels<'a> {
    pub bytes: &'a mut [u8],
    pub width: usize,
}

impl Pixels<'_> {
    /// Lays ink of a strength between 0 and 1 over a pixel. Ink outside the grid is ignored.
    fn ink(&mut self, (x, y): (i64, i64), strength: f32, colour: [u8; 3]) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        let start = 3 * (y * self.width + x);
        let Some(pixel) = self.bytes.get_mut(start..start + 3).filter(|_| x < self.width) else { return };
        for (byte, ink) in pixel.iter_mut().zip(colour) {
            let (below, above) = (f32::from(*byte), f32::from(ink));
            *byte = (below + (above - below) * strength.clamp(0.0, 1.0)).round() as u8;
        }
    }

    /// Writes a text whose em has that height. The point is at the end of the text that the anchor names, in
    /// the middle of the height of the small letters.
    pub fn write(
        &mut self,
        font: &FontRef<'_>,
        text: &str,
        em: f32,
        (x, y): (f32, f32),
        anchor: Anchor,
        colour: [u8; 3],
    ) {
        // The font is scaled by the height of its lines.
        let units = font.units_per_em().unwrap_or(1000.0);
        let scale = PxScale::from(em * font.height_unscaled() / units);
        let (glyphs, length) = line(font, text, scale);
        let before = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => 0.5 * length,
            Anchor::End | Anchor::UpwardsEnd => length,
        };
        // Half the height of the letter x.
        let middle = 0.27 * em;
        for glyph in glyphs {
            let Some(outline) = font.outline_glyph(glyph) else { continue };
            let Point { x: left, y: top } = outline.px_bounds().min;
            outline.draw(|column, row, strength| {
                let along = left + column as f32 - before;
                let down = top + row as f32 + middle;
                let (x, y) = match anchor {
                    Anchor::UpwardsEnd => (x + down, y - along),
                    _ => (x + along, y + down),
                };
                self.ink((x.round() as i64, y.round() as i64), strength, colour);
            });
        }
    }
}

/// The glyphs of a line whose baseline begins at the origin, and its length.
fn line(font: &FontRef<'_>, text: &str, scale: PxScale) -> (Vec<Glyph>, f32) {
    let scaled = font.as_scaled(scale);
    let mut x = 0.0;
    let mut glyphs = Vec::new();
    // A character that the font does not have is written by its number.
    let known = |character: char| -> String {
        let is_missing = font.glyph_id(character).0 == 0;
        if is_missing { character.escape_unicode().collect() } else { character.into() }
    };
    let text: String = text.chars().map(known).collect();
    for character in text.chars() {
        let id = scaled.glyph_id(character);
        glyphs.push(id.with_scale_and_position(scale, point(x, 0.0)));
        x += scaled.h_advance(id);
    }
    (glyphs, x)
}
