//! What is counted of the answers, and kept of them.

use std::collections::BTreeSet;
use std::sync::mpsc::Receiver;

use serde_json::Value;

use crate::answer::{self, Answer, Wrong};
use crate::client::Arrived;
use crate::report::{grouped, percentile};
use crate::request::Asked;

/// How many descriptions of what went wrong are kept of each kind.
const EXAMPLES: usize = 5;

/// What became of a request.
pub struct Outcome {
    pub client: usize,
    pub number: usize,
    pub asked: Asked,
    /// What came, or why nothing did.
    pub arrived: Result<Arrived, String>,
}

/// A request with its texts, to be asked again. They are JSON in one string, which takes the least memory.
pub struct Note {
    pub client: usize,
    pub number: usize,
    pub asked: Asked,
    pub texts: String,
    /// Whether the client left, so that the texts are beginnings.
    pub was_left: bool,
}

/// Requests that went wrong in one way.
#[derive(Default)]
pub struct Count {
    pub number: usize,
    pub examples: Vec<String>,
}

impl Count {
    pub fn add(&mut self, example: String) {
        self.number += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(example);
        }
    }
}

/// What is counted.
#[derive(Default)]
pub struct Tally {
    pub sent: usize,
    pub finished: usize,
    pub left: usize,
    pub failed: Count,
    pub lost: Count,
    pub doubled: Count,
    /// Tokens of the answers that say how many they have.
    pub tokens: u64,
    /// Seconds from a request to the first part of its stream, and between the parts of one text.
    first: Vec<f64>,
    next: Vec<f64>,
    ids: BTreeSet<String>,
    pub notes: Vec<Note>,
}

impl Tally {
    /// Reads answers as they come. A thread of its own does it, so that no client waits for it.
    pub fn of(outcomes: &Receiver<Outcome>) -> Self {
        let mut tally = Self::default();
        outcomes.iter().for_each(|outcome| tally.take(outcome));
        tally
    }

    fn take(&mut self, outcome: Outcome) {
        let Outcome { client, number, asked, arrived } = outcome;
        self.sent += 1;
        let arrived = match arrived {
            Ok(arrived) => arrived,
            Err(error) => {
                self.lost.add(format!("{client}/{number}: {error}"));
                return;
            }
        };
        let read = match (arrived.was_left, asked.streams) {
            (true, false) => {
                self.left += 1;
                return;
            }
            (true, true) => answer::read_beginning(&asked, &arrived),
            (false, _) => answer::read(&asked, &arrived),
        };
        match read {
            Ok(answer) => self.note(client, number, asked, &arrived, answer),
            Err(wrong) => {
                let (count, what) = match wrong {
                    Wrong::Failed(what) => (&mut self.failed, what),
                    Wrong::Lost(what) => (&mut self.lost, what),
                    Wrong::Doubled(what) => (&mut self.doubled, what),
                };
                let body = asked.body();
                count.add(format!("{client}/{number}: {what}\n  {}", String::from_utf8_lossy(&body)));
            }
        }
    }

    fn note(&mut self, client: usize, number: usize, asked: Asked, arrived: &Arrived, answer: Answer) {
        if !answer.id.is_empty() && !self.ids.insert(answer.id.clone()) {
            self.doubled.add(format!("{client}/{number}: the name {}", answer.id));
            return;
        }
        self.finished += usize::from(!arrived.was_left);
        self.left += usize::from(arrived.was_left);
        self.tokens += answer.tokens.unwrap_or_default();
        let first = answer.times.iter().filter_map(|times| times.first()).min();
        self.first.extend(first.map(|first| (*first - arrived.sent).as_secs_f64()));
        for times in &answer.times {
            self.next.extend(times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()));
        }
        let texts = Value::Array(answer.texts).to_string();
        self.notes.push(Note { client, number, asked, texts, was_left: arrived.was_left });
    }

    /// A table of the times that clients measured.
    pub fn times(&mut self) -> String {
        let mut table =
            "| on streams, as clients measured it | number | p50 ms | p90 ms | p99 ms | most ms |\n\
                         |---|---:|---:|---:|---:|---:|\n"
                .to_owned();
        for (name, times) in [
            ("time to the first part", &mut self.first),
            ("time between two parts of a text", &mut self.next),
        ] {
            let number = grouped(times.len() as u64);
            let [p50, p90, p99, most] = [0.5, 0.9, 0.99, 1.0].map(|share| 1e3 * percentile(times, share));
            table += &format!("| {name} | {number} | {p50:.1} | {p90:.1} | {p99:.1} | {most:.1} |\n");
        }
        table
    }
}
