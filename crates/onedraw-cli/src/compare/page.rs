//! The comparison as one HTML page that needs no other file: texts, metrics and charts.

use std::fmt::Write;

use crate::compare::measure::Measured;
use crate::compare::table::{HEADINGS, cells};
use crate::html::escaped;

const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1c1c1c;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.9rem}
th,td{padding:.3rem .5rem;text-align:right;border-bottom:1px solid #ddd}th:first-child,td:first-child{text-align:left}
.charts{margin-top:1.5rem;display:grid;grid-template-columns:repeat(auto-fill,minmax(21rem,1fr));gap:1rem}
figure{margin:0}figcaption{font-size:.9rem;color:#555}
article{border-left:3px solid #3b6ea5;padding:.1rem 1rem;margin:1rem 0;white-space:pre-wrap}
article b{color:#777;font-weight:400}
@media(prefers-color-scheme:dark){body{background:#16181c;color:#e4e4e4}th,td{border-color:#333}figcaption,article b{color:#aaa}svg text{fill:#e4e4e4}}
";

/// A chart: its heading, and the number of a strategy, if it has one.
type Chart = (&'static str, fn(&Measured) -> Option<f64>);

const CHARTS: [Chart; 6] = [
    ("perplexity under the model", |one| Some(one.perplexity)),
    ("distinct pairs of words", |one| Some(one.variety.distinct_2)),
    ("repeated runs of four tokens", |one| Some(one.variety.rep_4)),
    ("compression by zlib", |one| Some(one.variety.compression)),
    ("entropy of a step, bits", |one| one.entropy),
    ("tokens a second", |one| Some(one.tokens_per_second)),
];

/// The page.
pub fn page(prompt: &str, measured: &[Measured]) -> String {
    let mut page = String::from("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
    page += "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>onedraw compare</title>\n";
    page += &format!(
        "<style>\n{STYLE}</style>\n<h1>Strategies after “{}”</h1>\n<table>\n<tr><th>strategy",
        escaped(prompt)
    );
    for heading in HEADINGS {
        page += &format!("<th>{heading}");
    }
    page.push('\n');
    for one in measured {
        page += &format!("<tr><td>{}", escaped(&one.strategy));
        for cell in cells(one) {
            page += &format!("<td>{cell}");
        }
        page.push('\n');
    }
    page += "</table>\n<div class=\"charts\">\n";
    for (heading, number) in CHARTS {
        let bars: Vec<(&str, f64)> =
            measured.iter().filter_map(|one| Some((one.strategy.as_str(), number(one)?))).collect();
        page += &chart(heading, &bars);
    }
    page += "</div>\n";
    for one in measured {
        page += &format!("<h2>{}</h2>\n", escaped(&one.strategy));
        for text in &one.texts {
            page += &format!("<article><b>{}</b>{}</article>\n", escaped(prompt), escaped(&text.text));
        }
    }
    page + "</html>\n"
}

/// Bars that begin at zero, each with its number.
fn chart(heading: &str, bars: &[(&str, f64)]) -> String {
    const ROW: usize = 20;
    const LEFT: f64 = 120.0;
    const WIDTH: f64 = 180.0;
    let highest = bars.iter().map(|(_, number)| *number).fold(f64::MIN_POSITIVE, f64::max);
    let height = ROW * bars.len() + 4;
    let mut svg = format!(
        "<figure><svg viewBox=\"0 0 360 {height}\" role=\"img\" aria-label=\"{}\" font-size=\"12\">\n",
        escaped(heading)
    );
    for (place, (name, number)) in bars.iter().enumerate() {
        let (y, length) = (ROW * place, WIDTH * number.max(0.0) / highest);
        let (middle, after) = (y + 14, LEFT + length + 6.0);
        let digits = if highest >= 100.0 { 0 } else { 2 };
        _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{middle}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{LEFT:.0}\" y=\"{}\" width=\"{length:.1}\" height=\"14\" fill=\"#3b6ea5\"/>\
             <text x=\"{after:.1}\" y=\"{middle}\">{number:.digits$}</text>",
            LEFT - 6.0,
            escaped(name),
            y + 3,
        );
    }
    svg + &format!("</svg><figcaption>{heading}</figcaption></figure>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_lengths_and_numbers() {
        let svg = chart("speed", &[("a<", 50.0), ("b", 25.0), ("c", 0.0)]);
        assert!(
            svg.contains("width=\"180.0\"")
                && svg.contains("width=\"90.0\"")
                && svg.contains("width=\"0.0\"")
        );
        assert!(svg.contains(">a&lt;<") && svg.contains(">25.00<"));
        assert!(chart("nothing", &[]).contains("figcaption"));
    }
}
