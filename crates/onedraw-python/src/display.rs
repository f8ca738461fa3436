//! How objects are shown: in one line, and in notebooks as bars in an HTML table.

use std::fmt::{Debug, Write};

/// The debug form of a plain Rust value, written as Python would write it.
pub fn plain(value: &impl Debug) -> String {
    format!("{value:?}").replace(" { ", "(").replace(": ", "=").replace(" }", ")")
}

/// The most bars of a distribution.
pub const BARS: usize = 20;

/// One bar: its label, its length as a share of the longest possible bar, and the text beside it.
pub struct Bar {
    pub label: String,
    pub share: f64,
    pub value: String,
    /// Whether it is the bar of the drawn token.
    pub is_drawn: bool,
}

impl Bar {
    pub fn of_token(token: u32, probability: f64, is_drawn: bool) -> Self {
        Self { label: token.to_string(), share: probability, value: percent(probability), is_drawn }
    }
}

/// A share as a percentage.
pub fn percent(share: f64) -> String {
    match share {
        0.0 => "0 %".to_owned(),
        share if share < 0.0005 => format!("{:.0e} %", 100.0 * share),
        share => format!("{:.1} %", 100.0 * share),
    }
}

/// Bars under each other, with a title above and a note below.
pub fn chart(title: &str, bars: &[Bar], note: &str) -> String {
    const DRAWN: &str = "#c2571a";
    const OTHER: &str = "#4878a8";
    const WIDTH: f64 = 240.0;
    let longest = bars.iter().map(|bar| bar.share).fold(f64::MIN_POSITIVE, f64::max);
    let mut html = format!(
        "<div style=\"font-family:monospace;line-height:1.3\"><div>{}</div><table style=\"border:0\">",
        escape(title)
    );
    for Bar { label, share, value, is_drawn } in bars {
        let color = if *is_drawn { DRAWN } else { OTHER };
        let width = (WIDTH * share / longest).max(1.0);
        _ = write!(
            html,
            "<tr><td style=\"text-align:right;padding:0 6px\">{}</td><td style=\"text-align:left;padding:0\"><div style=\"display:inline-block;\
             width:{width:.0}px;height:0.8em;background:{color}\"></div> {}</td></tr>",
            escape(label),
            escape(value)
        );
    }
    _ = write!(html, "</table><div>{}</div></div>", escape(note));
    html
}

/// A table with a heading.
pub fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let mut html = String::from("<table style=\"font-family:monospace\"><tr>");
    for cell in heading {
        _ = write!(html, "<th>{}</th>", escape(cell));
    }
    html += "</tr>";
    for row in rows {
        html += "<tr>";
        for cell in row {
            _ = write!(html, "<td style=\"text-align:right\">{}</td>", escape(cell));
        }
        html += "</tr>";
    }
    html + "</table>"
}

/// A text with the characters escaped that mean something in HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
