//! The same requests, one at a time, with nobody else being served.

use std::time::{Duration, Instant};

use onedraw_testkit::rows::SplitMix64;
use serde_json::Value;

use crate::Result;
use crate::answer::{self, is_beginning};
use crate::client::Client;
use crate::tally::{Count, Note};

/// What came of asking again.
#[derive(Default)]
pub struct Again {
    pub requests: usize,
    /// Requests that had been left in the middle, among these.
    pub beginnings: usize,
    pub texts: usize,
    /// Requests with another text, logprob, token or end.
    pub different: Count,
    pub time: Duration,
}

/// Asks as many as fit into the time, in a random order. A stream is asked as a whole and a whole answer as a stream,
/// which must not matter either.
pub async fn again(client: &mut Client, notes: &mut [Note], most: Duration, seed: u64) -> Result<Again> {
    let (begun, mut again) = (Instant::now(), Again::default());
    // Their order depends on when they ended; that of the sample must not.
    notes.sort_by_key(|note| (note.client, note.number));
    SplitMix64::new(seed).shuffle(notes);
    for note in notes {
        if begun.elapsed() > most {
            break;
        }
        again.compare(client, note).await?;
    }
    again.time = begun.elapsed();
    Ok(again)
}

impl Again {
    async fn compare(&mut self, client: &mut Client, note: &Note) -> Result<()> {
        let asked = note.asked.otherwise();
        let name = format!("{}/{}", note.client, note.number);
        self.requests += 1;
        let read = match client.post(asked.path.text(), asked.body(), None).await {
            Ok(arrived) => answer::read(&asked, &arrived).map_err(|wrong| format!("{wrong:?}")),
            Err(error) => Err(error.to_string()),
        };
        let alone = match read {
            Ok(answer) => answer.texts,
            Err(wrong) => {
                self.different.add(format!("{name}, alone: {wrong}"));
                return Ok(());
            }
        };
        let before: Vec<Value> = serde_json::from_str(&note.texts)?;
        self.beginnings += usize::from(note.was_left);
        self.texts += before.len();
        let is_same = |(before, alone): (&Value, &Value)| match note.was_left {
            true => is_beginning(before, alone),
            false => before == alone,
        };
        if before.len() != alone.len() || !before.iter().zip(&alone).all(is_same) {
            let body = note.asked.body();
            let (request, alone) = (String::from_utf8_lossy(&body), Value::Array(alone));
            self.different.add(format!("{name}\n  {request}\n  then:  {}\n  alone: {alone}", note.texts));
        }
        Ok(())
    }
}
