//! A picture: bars, lines and words, painted as SVG or PNG.

pub mod generation;
mod letters;
pub mod panels;
mod style;
pub mod tree;

use std::path::Path;

use ab_glyph::FontRef;
use anyhow::{Result, anyhow, bail};
use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{PathElement, Rectangle, Text};
use plotters::prelude::DrawingBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, FontTransform, IntoFont, RGBColor, WHITE};

use letters::Pixels;
pub use style::{Anchor, Colour, LETTER, SMALL, TEXT};

/// All glyphs have the same width, so a picture keeps its layout if an SVG is shown in another font of that
/// kind.
const FONT: &[u8] = include_bytes!("../../../font/DejaVuSansMono.ttf");

/// A shape to paint. Units are pixels of an SVG, and y grows downwards.
#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Bar { x: f64, y: f64, width: f64, height: f64, colour: Colour },
    Line { points: Vec<(f64, f64)>, colour: Colour, thickness: u32 },
}

/// A text to write.
#[derive(Clone, Debug, PartialEq)]
struct Words {
    x: f64,
    y: f64,
    text: String,
    /// The size of the font.
    em: f64,
    anchor: Anchor,
    colour: Colour,
}

/// Shapes on a white background, each over those before it, and words over all shapes.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    width: f64,
    height: f64,
    shapes: Vec<Shape>,
    words: Vec<Words>,
}

impl Picture {
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, shapes: Vec::new(), words: Vec::new() }
    }

    pub fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: Colour) {
        self.shapes.push(Shape::Bar { x, y, width, height, colour });
    }

    pub fn line(&mut self, points: Vec<(f64, f64)>, colour: Colour, thickness: u32) {
        self.shapes.push(Shape::Line { points, colour, thickness });
    }

    pub fn text(&mut self, (x, y): (f64, f64), text: impl Into<String>, anchor: Anchor, colour: Colour) {
        self.sized_text((x, y), text, anchor, colour, TEXT);
    }

    pub fn sized_text(
        &mut self,
        (x, y): (f64, f64),
        text: impl Into<String>,
        anchor: Anchor,
        colour: Colour,
        em: f64,
    ) {
        self.words.push(Words { x, y, text: text.into(), em, anchor, colour });
    }

    /// The bytes of a file of that form.
    pub fn encode(&self, form: Form) -> Result<Vec<u8>> {
        match form {
            Form::Svg => self.svg(),
            Form::Png => self.png(),
        }
    }

    fn svg(&self) -> Result<Vec<u8>> {
        let mut text = String::new();
        let area = SVGBackend::with_string(&mut text, self.size(1.0)?).into_drawing_area();
        let painted = self.paint(&area, 1.0).and_then(|()| self.write(&area)).and_then(|()| area.present());
        painted.map_err(|error| anyhow!("the picture cannot be painted: {error}"))?;
        drop(area);
        Ok(text.into_bytes())
    }

    fn png(&self) -> Result<Vec<u8>> {
        /// Pixels of a PNG per unit, so that it is sharp on screens with a high resolution.
        const SCALE: f64 = 2.0;
        let (width, height) = self.size(SCALE)?;
        let mut pixels = vec![0; 3 * width as usize * height as usize];
        let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        self.paint(&area, SCALE)
            .and_then(|()| area.present())
            .map_err(|error| anyhow!("the picture cannot be painted: {error}"))?;
        drop(area);
        let font = FontRef::try_from_slice(FONT)?;
        let mut grid = Pixels { bytes: &mut pixels, width: width as usize };
        for Words { x, y, text, em, anchor, colour } in &self.words {
            let RGBColor(red, green, blue) = colour.rgb();
            let at = ((SCALE * x) as f32, (SCALE * y) as f32);
            grid.write(&font, text, (SCALE * em) as f32, at, *anchor, [red, green, blue]);
        }
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.write_header()?.write_image_data(&pixels)?;
        Ok(bytes)
    }

    fn size(&self, scale: f64) -> Result<(u32, u32)> {
        /// The most pixels each way. Many viewers show no more.
        const LARGEST: f64 = 16384.0;
        let (width, height) = ((scale * self.width).ceil(), (scale * self.height).ceil());
        if width > LARGEST || height > LARGEST {
            bail!("the picture would be {width} by {height} pixels; at most {LARGEST} each way are painted");
        }
        Ok((width as u32, height as u32))
    }

    fn paint<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        scale: f64,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        area.fill(&WHITE)?;
        let at = |x: f64, y: f64| ((scale * x).round() as i32, (scale * y).round() as i32);
        for shape in &self.shapes {
            match shape {
                Shape::Bar { x, y, width, height, colour } => {
                    let corners = [at(*x, *y), at(x + width, y + height)];
                    area.draw(&Rectangle::new(corners, colour.rgb().filled()))?;
                }
                Shape::Line { points, colour, thickness } => {
                    let points: Vec<(i32, i32)> = points.iter().map(|(x, y)| at(*x, *y)).collect();
                    let width = (scale * f64::from(*thickness)).round() as u32;
                    area.draw(&PathElement::new(points, colour.rgb().stroke_width(width)))?;
                }
            }
        }
        Ok(())
    }

    /// Writes the words as text elements of an SVG.
    fn write<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        /// The height that plotters expects for a line of text whose em is 1.
        const LINE: f64 = 1.24;
        for Words { x, y, text, em, anchor, colour } in &self.words {
            let font = ("monospace", LINE * em).into_font();
            let (font, horizontal) = match anchor {
                Anchor::Start => (font, HPos::Left),
                Anchor::Middle => (font, HPos::Center),
                Anchor::End => (font, HPos::Right),
                Anchor::UpwardsEnd => (font.transform(FontTransform::Rotate270), HPos::Right),
            };
            let style = font.color(&colour.rgb()).pos(Pos::new(horizontal, VPos::Center));
            area.draw(&Text::new(text.as_str(), (x.round() as i32, y.round() as i32), style))?;
        }
        Ok(())
    }
}

/// The format of a picture's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Svg,
    Png,
}

impl Form {
    /// The format that the extension of a file names.
    pub fn of(path: &Path) -> Result<Self> {
        let is = |extension| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension));
        match (is("svg"), is("png")) {
            (true, _) => Ok(Self::Svg),
            (_, true) => Ok(Self::Png),
            _ => bail!("a picture is a .svg or a .png file"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> Picture {
        let mut picture = Picture::new(60.0, 40.0);
        picture.bar((10.0, 10.0), (20.0, 10.0), Colour::Blue);
        picture.line(vec![(0.0, 39.0), (59.0, 39.0)], Colour::Orange, 1);
        picture.text((40.0, 20.0), "a<b", Anchor::Start, Colour::Ink);
        picture
    }

    #[test]
    fn shapes_are_where_they_should_be_in_an_svg() {
        let svg = String::from_utf8(picture().encode(Form::Svg).expect("a picture")).expect("UTF-8");
        assert!(
            svg.contains("<rect x=\"10\" y=\"10\" width=\"20\" height=\"10\" opacity=\"1\" fill=\"#3B6EA5\""),
            "{svg}"
        );
        assert!(svg.contains("points=\"0,39 59,39 \""), "{svg}");
        assert!(svg.contains("a&lt;b"), "{svg}");
        assert!(svg.matches("</svg>").count() == 1 && svg.trim_end().ends_with("</svg>"), "{svg}");
    }

    #[test]
    fn shapes_are_where_they_should_be_in_a_png() {
        let bytes = picture().encode(Form::Png).expect("a picture");
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().expect("a PNG");
        let mut pixels = vec![0; reader.output_buffer_size().expect("a size")];
        let info = reader.next_frame(&mut pixels).expect("pixels");
        assert_eq!((info.width, info.height), (120, 80));
        let at = |x: usize, y: usize| &pixels[3 * (120 * y + x)..][..3];
        assert_eq!(
            (at(30, 30), at(5, 5), at(64, 30)),
            (&[0x3b, 0x6e, 0xa5][..], &[255; 3][..], &[255; 3][..])
        );
        assert_eq!(at(60, 78), [0xd9, 0x5f, 0x02]);
        // Words leave ink.
        let dark = (80..120).flat_map(|x| (30..50).map(move |y| (x, y))).filter(|&(x, y)| at(x, y)[0] < 128);
        assert!(dark.count() > 40);
    }

    #[test]
    fn the_name_says_what_is_written() {
        assert_eq!(Form::of(Path::new("a.SVG")).ok(), Some(Form::Svg));
        assert_eq!(Form::of(Path::new("a.b/c.png")).ok(), Some(Form::Png));
        assert!(Form::of(Path::new("a.jpg")).is_err() && Form::of(Path::new("svg")).is_err());
    }

    #[test]
    fn a_picture_has_an_end() {
        let error = Picture::new(9000.0, 10.0).encode(Form::Png).expect_err("too wide");
        assert_eq!(
            error.to_string(),
            "the picture would be 18000 by 20 pixels; at most 16384 each way are painted"
        );
    }
}
