//! Single calls: how rows that come with their parameters are drawn together.
//!
//! Rows of one sequence each share a launch. Several sequences of one row read the same logits, which is a
//! matrix with a stride of 0, so such a row is drawn by itself.

use std::ops::Range;

use onedraw::{SamplingParams, SequenceId};

use crate::rows::Capacity;

/// The most sequences of one launch. A batch keeps device memory for each row of a launch, and this bounds
/// it. The value is a choice: no result depends on it.
pub const SEQUENCES_PER_LAUNCH: usize = 1024;

/// The rows, by number, that are drawn together: as many as one launch takes if each has one sequence, else
/// each row by itself. `params` has the parameters of each row.
pub fn parts(params: &[&SamplingParams]) -> Vec<Range<usize>> {
    let is_one_each = params.iter().all(|params| params.n == 1);
    let together = if is_one_each { SEQUENCES_PER_LAUNCH } else { 1 };
    let starts = (0..params.len()).step_by(together);
    starts.map(|start| start..params.len().min(start + together)).collect()
}

/// Room for rows that are drawn in [`parts`]. `held` has the parameters of the rows whose sequences are in
/// the batch at the same time, and of those that follow once these are removed.
pub fn capacity<'a>(held: impl IntoIterator<Item = &'a [&'a SamplingParams]>, vocabulary: usize) -> Capacity {
    let mut capacity = Capacity { sequences: 0, rows: 0, vocabulary, logprobs: 0 };
    for params in held {
        let sequences =
            |rows: Range<usize>| params[rows].iter().map(|params| params.n as usize).sum::<usize>();
        let launched = parts(params).into_iter().map(sequences).max().unwrap_or(0).min(SEQUENCES_PER_LAUNCH);
        // −1 are all.
        let number = |count: i64| usize::try_from(count).map_or(vocabulary, |count| count.min(vocabulary));
        let asked = params.iter().flat_map(|params| [params.logprobs, params.prompt_logprobs]);
        let logprobs = asked.flatten().map(number).max().unwrap_or(0);
        capacity.sequences = capacity.sequences.max(sequences(0..params.len()));
        capacity.rows = capacity.rows.max(launched);
        capacity.logprobs = capacity.logprobs.max(logprobs);
    }
    capacity
}

/// One launch of a part.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Whose tokens are drawn.
    pub sequences: &'a [SequenceId],
    /// The row of the first sequence.
    pub first_row: usize,
    /// Whether that is the row of all of them. Else each has the row after the one before.
    pub is_one_row: bool,
}

/// The launches that draw for the sequences of a part of rows, in the order of the rows.
pub fn launches(part: Range<usize>, sequences: &[SequenceId]) -> impl Iterator<Item = Launch<'_>> {
    let is_one_row = part.len() == 1;
    sequences.chunks(SEQUENCES_PER_LAUNCH).map(move |sequences| Launch {
        sequences,
        first_row: part.start,
        is_one_row,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(counts: &[u32]) -> Vec<SamplingParams> {
        counts.iter().map(|&n| SamplingParams { n, ..Default::default() }).collect()
    }

    #[test]
    fn rows_of_one_sequence_are_drawn_together() {
        let many = params(&[1; 2500]);
        assert_eq!(parts(&many.iter().collect::<Vec<_>>()), [0..1024, 1024..2048, 2048..2500]);
        let mixed = params(&[1, 3, 1]);
        assert_eq!(parts(&mixed.iter().collect::<Vec<_>>()), [0..1, 1..2, 2..3]);
        assert_eq!(parts(&[]), []);
    }

    #[test]
    fn there_is_room_for_the_largest() {
        let mut rows = params(&[1, 1, 5, 3000, 2]);
        (rows[0].logprobs, rows[4].logprobs) = (Some(4), Some(-1));
        let rows: Vec<_> = rows.iter().collect();
        let found = capacity([&rows[..2], &rows[2..3], &rows[3..]], 7);
        assert_eq!(found, Capacity { sequences: 3002, rows: 1024, vocabulary: 7, logprobs: 7 });
        let found = capacity([&rows[..2], &rows[2..3]], 7);
        assert_eq!(found, Capacity { sequences: 5, rows: 5, vocabulary: 7, logprobs: 4 });
        let none = Capacity { sequences: 0, rows: 0, vocabulary: 7, logprobs: 0 };
        assert_eq!(capacity([], 7), none);
    }

    #[test]
    fn many_sequences_of_a_row_take_several_launches() {
        let ids = vec![SequenceId::NOBODY; 2049];
        let found = launches(6..7, &ids);
        let found: Vec<_> = found.map(|one| (one.sequences.len(), one.first_row, one.is_one_row)).collect();
        assert_eq!(found, [(1024, 6, true), (1024, 6, true), (1, 6, true)]);
        let found = launches(2..5, &ids[..3]);
        let found: Vec<_> = found.map(|one| (one.sequences.len(), one.first_row, one.is_one_row)).collect();
        assert_eq!(found, [(3, 2, false)]);
    }
}
