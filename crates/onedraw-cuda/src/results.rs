//! What the device reports of a row, as the library's types.

use onedraw::float_mode::Standard;
use onedraw::key::Key;
use onedraw::mass::relative;
use onedraw::math::ln;
use onedraw::{Border, Kept, KeptMode, RowError, Sampled, TokenLogprob};

use crate::error::CudaError;
use crate::record::chain::stage_of_edit;
use crate::record::layout::{Entry, Outcome, Report, Sequence, kept_mode};

/// The status of a row for which nothing was drawn yet: its memory begins as ones.
const NOT_DRAWN: u32 = u32::MAX;

/// What was read of a row beside its token, as far as any row of the step has it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answer<'a> {
    pub report: Option<&'a Report>,
    pub entries: &'a [Entry],
    /// The kept tokens, one bit each.
    pub kept_bits: &'a [u32],
}

/// The result of one row. `position` is where the sequence stood before the draw.
pub(crate) fn sampled(
    sequence: &Sequence,
    position: u32,
    outcome: Outcome,
    answer: Answer<'_>,
) -> Result<Result<Sampled, RowError>, CudaError> {
    let token = outcome.token;
    match outcome.status {
        Outcome::DRAWN => {}
        Outcome::NAN_LOGIT => return Ok(Err(RowError::NanLogit { token })),
        Outcome::INFINITE_LOGIT => return Ok(Err(RowError::InfiniteLogit { token })),
        Outcome::NOTHING_LEFT => {
            return Ok(Err(RowError::NothingLeft { stage: stage_of_edit(token) }));
        }
        NOT_DRAWN => return Err(CudaError::NoResults),
        status => return Err(CudaError::Launch(format!("a row ended with the unknown status {status}"))),
    }
    let mut sampled = Sampled {
        token,
        seed: sequence.seed,
        position,
        sequence: sequence.sequence,
        probability: None,
        logprob: None,
        rank: None,
        logprobs: Vec::new(),
        mirostat_mu: None,
        kept: None,
    };
    let Answer { report, entries, kept_bits } = answer;
    if let Some(report) = report.filter(|_| sequence.mirostat != 0) {
        sampled.mirostat_mu = Some(report.mu);
    }
    if let Some(report) = report.filter(|_| sequence.tells_probability != 0) {
        sampled.probability = Some(report.probability);
    }
    if let Some(report) = report.filter(|_| sequence.kept != kept_mode(KeptMode::None)) {
        sampled.kept = Some(kept(sequence, report, kept_bits));
    }
    if let Some(report) = report.filter(|_| sequence.logprobs > 0) {
        let listed = entries.get(..report.entry_count as usize).filter(|listed| !listed.is_empty());
        let Some(listed) = listed else {
            return Err(CudaError::Launch(format!("a row reported {} entries", report.entry_count)));
        };
        let of = |entry: &Entry| TokenLogprob { token: entry.token, logprob: entry.value, rank: entry.rank };
        sampled.logprobs = listed.iter().map(of).collect();
        sampled.logprob = Some(listed[0].value);
        sampled.rank = Some(listed[0].rank);
    }
    Ok(Ok(sampled))
}

/// The kept tokens of a row.
fn kept(sequence: &Sequence, report: &Report, bits: &[u32]) -> Kept {
    let _mode = Standard::enter();
    let last = (report.kept_last != 0).then(|| Key::from_number(report.kept_last));
    let has_ids = sequence.kept == kept_mode(KeptMode::Ids);
    Kept {
        count: report.kept_count,
        last: last.map(|key| Border { token: key.token(), logit: key.logit() }),
        ln_mass: ln(relative(report.mass)),
        ids: has_ids.then(|| ids(bits)),
    }
}

/// The ids of bits, the lowest bit of the first word being id 0.
fn ids(bits: &[u32]) -> Vec<u32> {
    let of_word = |(i, &word): (usize, &u32)| {
        let next = |rest: &u32| Some(rest & (rest - 1)).filter(|&rest| rest != 0);
        let rests = std::iter::successors(Some(word).filter(|&word| word != 0), next);
        rests.map(move |rest| 32 * i as u32 + rest.trailing_zeros())
    };
    bits.iter().enumerate().flat_map(of_word).collect()
}

#[cfg(test)]
mod tests {
    use onedraw::{SamplingParams, Stage};

    use super::*;
    use crate::record::chain::Record;

    fn sequence(logprobs: Option<i64>) -> Sequence {
        asking(logprobs, false)
    }

    fn asking(logprobs: Option<i64>, probability: bool) -> Sequence {
        let seed = Some(5);
        let params =
            SamplingParams { seed, logprobs, probability, presence_penalty: 1.0, ..Default::default() };
        Record::new(&params).expect("parameters that the device takes").sequence
    }

    fn failed(token: u32, status: u32) -> RowError {
        let outcome = Outcome { token, status };
        sampled(&sequence(None), 0, outcome, Answer::default())
            .expect("a known status")
            .expect_err("a bad row")
    }

    #[test]
    fn bad_rows_are_their_own_errors() {
        assert_eq!(failed(7, Outcome::NAN_LOGIT), RowError::NanLogit { token: 7 });
        assert_eq!(failed(8, Outcome::INFINITE_LOGIT), RowError::InfiniteLogit { token: 8 });
        assert_eq!(failed(1, Outcome::NOTHING_LEFT), RowError::NothingLeft { stage: Some(Stage::BadWords) });
        assert_eq!(failed(4, Outcome::NOTHING_LEFT), RowError::NothingLeft { stage: Some(Stage::Penalties) });
        assert_eq!(failed(u32::MAX, Outcome::NOTHING_LEFT), RowError::NothingLeft { stage: None });
        assert!(sampled(&sequence(None), 0, Outcome { token: 0, status: 9 }, Answer::default()).is_err());
        // As a batch fills it before the first launch.
        let untouched: Outcome = bytemuck::cast([0xff_u8; size_of::<Outcome>()]);
        assert_eq!(sampled(&sequence(None), 0, untouched, Answer::default()), Err(CudaError::NoResults));
    }

    fn answer<'a>(report: &'a Report, entries: &'a [Entry]) -> Answer<'a> {
        Answer { report: Some(report), entries, ..Answer::default() }
    }

    #[test]
    fn ids_are_bits_in_their_order() {
        assert_eq!(ids(&[0, 0b1001, 1 << 31]), [32, 35, 95]);
        assert!(ids(&[]).is_empty());
    }

    #[test]
    fn reports_are_read_where_they_are_asked_for() {
        let outcome = Outcome { token: 3, status: Outcome::DRAWN };
        let report = Report { probability: 0.5, entry_count: 2, rank: 2, ..Report::default() };
        let entries = [
            Entry { token: 3, rank: 2, value: -0.75 },
            Entry { token: 1, rank: 1, value: -0.5 },
            Entry::default(),
        ];
        let read = |logprobs, probability| {
            sampled(&asking(logprobs, probability), 9, outcome, answer(&report, &entries))
                .expect("known")
                .expect("drawn")
        };
        let plain = read(None, false);
        assert_eq!((plain.token, plain.seed, plain.position, plain.probability), (3, 5, 9, None));
        let told = read(None, true);
        assert_eq!((told.probability, told.logprob, told.rank), (Some(0.5), None, None));
        // The logprobs are raw: their probability would be another.
        let reported = read(Some(2), false);
        assert_eq!((reported.probability, reported.logprob, reported.rank), (None, Some(-0.75), Some(2)));
        assert_eq!(read(Some(2), true).probability, Some(0.5));
        assert_eq!(reported.logprobs.len(), 2);
        assert_eq!(reported.logprobs[1], TokenLogprob { token: 1, logprob: -0.5, rank: 1 });
        let none = Report::default();
        assert!(sampled(&sequence(Some(2)), 9, outcome, answer(&none, &entries)).is_err());
    }
}
