//! Audits as one HTML page that needs no other file: the texts, coloured by distance.

use std::collections::BTreeMap;

use onedraw::Utf8Stream;
use onedraw::verdict::HONEST;
use onedraw_lm::Tokenizer;
use onedraw_lm::audit::{Checked, TextAudit};
use onedraw_lm::trace::Trace;

use super::line::{Audited, meaning, verdict};
use super::table::explained;
use crate::html::escaped;
use crate::plot::label::label;

const STYLE: &str = "\
body{font:16px/1.6 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1c1c1c;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
article{border-left:3px solid #3b6ea5;padding:.1rem 1rem;margin:1rem 0;white-space:pre-wrap}
article b{color:#777;font-weight:400}
article i{color:#777}
span{border-radius:.2rem}
.g1{background:#fdf3c9}.g2{background:#fbd58b}.g3{background:#f5a56b}.g4{background:#e2694f;color:#fff}
.out{outline:2px solid #b3261e}
.key span{padding:0 .4rem;margin-right:.6rem;display:inline-block}
@media(prefers-color-scheme:dark){body{background:#16181c;color:#e4e4e4}article b,article i{color:#aaa}.g1,.g2,.g3{color:#1c1c1c}}
";

/// Distances, in logits, from which a token has the next colour.
const COLOURS: [f64; 4] = [0.0, 0.1, 0.5, 1.0];

/// The page so far.
#[derive(Default)]
pub struct Page {
    body: String,
}

impl Page {
    pub fn add(&mut self, number: usize, trace: &Trace, audited: &Audited, tokenizer: &Tokenizer) {
        let heading = match audited {
            Audited::Text(audit) => format!(
                "{}; {} of {} tokens equal",
                meaning(verdict(audit)),
                audit.equal(),
                audit.tokens.len()
            ),
            Audited::NotReplayable { why, .. } => format!("not checked: cannot be drawn again ({why})"),
            Audited::Bad(error) => format!("error: {error}"),
        };
        self.body += &format!("<h2>Line {number}: {}</h2>\n", escaped(&heading));
        if let Audited::Text(audit) = audited {
            if let Some(found) = &audit.diagnosis {
                self.body += &format!(
                    "<p>The text fits another value: {}.</p>\n",
                    explained(found, audit.tokens.len())
                );
            }
            if let Some(place) = audit.left_constraint {
                self.body += &format!(
                    "<p>Output token {place} is not allowed by the constraint. Nothing after it was compared.</p>\n"
                );
            }
            let last = audit.tokens.iter().map(|token| token.leg).max().unwrap_or(0);
            let differ = |token: &&Checked| token.leg < last && !token.audit.is_drawn();
            match audit.tokens.iter().filter(differ).count() {
                0 => {}
                count => {
                    self.body += &format!(
                        "<p>Before text was taken back, {count} tokens were not the drawn ones.</p>\n"
                    )
                }
            }
            self.body += &format!("<article>{}</article>\n", text(trace, audit, tokenizer));
        }
    }

    /// A line that is no trace.
    pub fn add_bad(&mut self, number: usize, error: &str) {
        self.body += &format!("<h2>Line {number}: error: {}</h2>\n", escaped(error));
    }

    pub fn finish(self) -> String {
        let mut page = String::from("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n");
        page += "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>onedraw audit</title>\n";
        page += &format!("<style>\n{STYLE}</style>\n<h1>Who wrote this text?</h1>\n<p class=\"key\">");
        page += "A token that is not the drawn one, by how far it is away, in logits: ";
        for (number, from) in COLOURS.iter().enumerate() {
            let above = if *from == 0.0 { "below 0.1".to_owned() } else { format!("from {from}") };
            page += &format!("<span class=\"g{}\">{above}</span>", number + 1);
        }
        page += "<span class=\"out\">not in the kept set</span></p>\n";
        page += &format!(
            "<p>Other arithmetic makes at most {:.0} of 100 tokens differ at all, and {:.1} of 100 by 0.1 or more.</p>\n",
            100.0 * HONEST[0].1,
            100.0 * share(0.1)
        );
        page += &self.body;
        page + "</html>\n"
    }
}

/// The share of tokens that other arithmetic puts beyond a distance.
fn share(distance: f64) -> f64 {
    HONEST.iter().rev().find(|(limit, _)| *limit <= distance).map_or(1.0, |(_, share)| *share)
}

/// The prompt and the tokens that stand in the end, each with what the audit says of it.
fn text(trace: &Trace, audit: &TextAudit, tokenizer: &Tokenizer) -> String {
    let mut utf8 = Utf8Stream::default();
    let mut piece = |token: u32| escaped(utf8.push(tokenizer.bytes(token)));
    let mut page = String::from("<b>");
    for &token in trace.prompt_token_ids.iter().chain(&trace.params.output_token_ids) {
        page += &piece(token);
    }
    page += "</b>";
    // Of tokens that were drawn at the same place, those before text was taken back come first.
    let checked: BTreeMap<usize, &onedraw::Audit> =
        audit.tokens.iter().map(|token| (token.place, &token.audit)).collect();
    let end = audit.left_constraint.map_or(usize::MAX, |place| place + 1);
    for (place, &token) in trace.output_token_ids.iter().enumerate() {
        if place == end {
            page += "<b>";
        }
        let piece = match tokenizer.bytes(token).is_empty() {
            true => format!("<i>{}</i>", escaped(&label(Some(tokenizer), token))),
            false => piece(token),
        };
        match checked.get(&place).filter(|audit| !audit.is_drawn()) {
            None => page += &piece,
            Some(audit) => {
                let distance = audit.distance;
                let colour = COLOURS.iter().take_while(|&&from| distance >= from).count();
                let outside = if audit.is_kept { "" } else { " out" };
                page += &format!(
                    "<span class=\"g{colour}{outside}\" title=\"token {place}: {} is drawn, ahead by {:.3} nats{}\">{piece}</span>",
                    escaped(&label(Some(tokenizer), audit.drawn)),
                    audit.gap,
                    if audit.is_kept { String::new() } else { format!("; {:.3} outside", audit.outside) },
                );
            }
        }
    }
    page += &escaped(utf8.finish());
    if trace.output_token_ids.len() > end { page + "</b>" } else { page }
}
