//! How much memory a batch takes, which is known before.

use onedraw::SamplingParams;

use super::arrays::Arrays;
use super::capacity::Capacity;
use crate::error::CudaError;
use crate::memory::{Pool, bytes_of_mus, bytes_of_text};
use crate::record::chain::Record;
use crate::record::layout::{EditKind, Outcome, Report, Revision, Task};
use crate::record::tables::Tables;

impl Capacity {
    /// Bytes of device memory that a [`Batch`](crate::Batch) takes before a sequence is added, where some have
    /// parameters like these: rows of DRY and n-grams need a word for each token, and rows whose edits stand after a
    /// truncation or a temperature need a second row.
    pub fn bytes(&self, params: &SamplingParams) -> Result<usize, CudaError> {
        let record = Record::new(params)?;
        let lists = size_of::<Task>() + size_of::<Outcome>() + size_of::<Report>() + size_of::<Revision>();
        let lists = self.sequences * lists + self.rows * size_of::<Task>();
        Ok(Arrays::bytes(self, &record.sequence) + lists)
    }

    /// Bytes of device memory that a sequence with these parameters takes beside that, once prompt and output are
    /// `tokens` long:
    ///
    /// - Plain parameters take nothing.
    /// - Edits of single tokens: a bit for each token of the vocabulary, a list of 6 KB, and what the parameters list.
    ///   Allowed ids are a bit for each token too.
    /// - Penalties: 8 bytes for each token of the vocabulary.
    /// - A text that is read or undone, by penalties, bad words of several tokens, DRY and n-grams: 4 bytes for each of
    ///   its tokens, and for 1,024 at least. Mirostat: 8 bytes for each token of the output, and as many at least.
    ///
    /// Each of the last two, and the rest together, is rounded up by a fourth at most. Memory of removed sequences is
    /// used again, and freed with the batch.
    pub fn sequence_bytes(&self, params: &SamplingParams, tokens: usize) -> Result<usize, CudaError> {
        let record = Record::new(params)?;
        record.plan.check_vocabulary(self.vocabulary)?;
        let tables = Tables::before_text(params, &record, self.vocabulary);
        let words = tables.words.len() + tables.left_open;
        let of_tables = if words > 0 { Pool::size(size_of::<u32>() * words) } else { 0 };
        let keeps_text = record.reads_text || record.has(EditKind::Penalties);
        let of_text = if keeps_text { bytes_of_text(tokens) } else { 0 };
        let written = tokens.saturating_sub(params.prompt_token_ids.len());
        let of_mus = if record.sequence.mirostat != 0 { bytes_of_mus(written) } else { 0 };
        Ok(of_tables + of_text + of_mus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4,096 sequences with texts of 32,768 tokens.
    #[test]
    fn memory_is_known_before() {
        let capacity = Capacity { sequences: 4096, rows: 4096, vocabulary: 128_256, logprobs: 0 };
        let megabytes = |params: &SamplingParams| {
            let rows = capacity.bytes(params).expect("parameters that the device takes");
            let own = capacity.sequence_bytes(params, 32_768).expect("ids of the vocabulary");
            (rows >> 20, (capacity.sequences * own) >> 20)
        };
        let default = SamplingParams::default;
        assert_eq!(megabytes(&default()), (210, 0));
        assert_eq!(megabytes(&SamplingParams { frequency_penalty: 0.1, ..default() }), (210, 4608));
        assert_eq!(megabytes(&SamplingParams { dry_multiplier: 0.8, ..default() }), (2214, 608));
        assert_eq!(megabytes(&SamplingParams { mirostat: 2, ..default() }), (210, 1281));
    }
}
