//! What a sequence keeps on the device beside its record: bitmaps, counts, the last tokens of its text,
//! lists. All of it is one allocation, filled on the host.

use onedraw::SamplingParams;
use onedraw::noise::BLOCK;

use super::layout::{EditKind, Sequence, pitch};
use super::shared::EDIT_LIST_CAPACITY;

/// Sections begin at multiples of so many words: 16 bytes, the most that a kernel reads at once.
const ALIGNMENT: usize = 4;

/// The words of the allocation, and where in it the record's addresses point.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tables {
    pub words: Vec<u32>,
    /// The number of last tokens that `history` holds.
    ring: u32,
    allowed: Option<usize>,
    touched: Option<usize>,
    edit_list: Option<usize>,
    /// The number of tokens that an edit may change.
    edit_list_length: u32,
    counts: Option<usize>,
    history: Option<usize>,
    end_ids: Option<usize>,
    bias_ids: Option<usize>,
    bias_values: Option<usize>,
    bad_words: Option<usize>,
}

impl Tables {
    /// The tables of parameters, whose ids must all be tokens of the vocabulary, and of their record.
    pub(crate) fn new(params: &SamplingParams, record: &Sequence, vocabulary: usize) -> Self {
        let mut tables = Self { ring: ring(params, record), ..Self::default() };
        let text = || params.prompt_token_ids.iter().chain(&params.output_token_ids).copied();
        if let Some(ids) = &params.allowed_token_ids {
            tables.allowed = tables.push(bitmap(ids.iter().copied(), vocabulary));
        }
        let mut touched = touched(params, record);
        if !touched.is_empty() || record.has(EditKind::Penalties) {
            tables.touched = tables.push(bitmap(touched.iter().copied(), vocabulary));
            touched.sort_unstable();
            touched.dedup();
            tables.edit_list_length = touched.len() as u32;
            touched.resize(EDIT_LIST_CAPACITY, 0);
            tables.edit_list = tables.push(touched);
        }
        if record.has(EditKind::Penalties) {
            tables.counts = tables.push(counts(params, record, vocabulary));
        }
        if tables.ring > 0 {
            let mut history = vec![0; tables.ring as usize];
            for (i, token) in text().enumerate() {
                history[i % tables.ring as usize] = token;
            }
            tables.history = tables.push(history);
        }
        if record.has(EditKind::MinTokens) {
            tables.end_ids = tables.push(ends(params).collect());
        }
        if record.has(EditKind::LogitBias) {
            tables.bias_ids = tables.push(params.logit_bias.keys().copied().collect());
            // Rounded to f32, in which edits compute.
            let values = params.logit_bias.values().map(|&bias| (bias as f32).to_bits());
            tables.bias_values = tables.push(values.collect());
        }
        if record.has(EditKind::BadWords) {
            let mut words = vec![0];
            words.extend(params.bad_words_ids.iter().scan(0, |end, word| {
                *end += word.len() as u32;
                Some(*end)
            }));
            words.extend(params.bad_words_ids.iter().flatten());
            tables.bad_words = tables.push(words);
        }
        tables
    }

    /// Appends a section; returns where it begins.
    fn push(&mut self, section: Vec<u32>) -> Option<usize> {
        let start = self.words.len();
        self.words.extend(section);
        self.words.resize(self.words.len().next_multiple_of(ALIGNMENT), 0);
        Some(start)
    }

    /// The record with the addresses of its tables, the first of which lies at `base`.
    pub(crate) fn point(&self, record: &Sequence, base: u64) -> Sequence {
        let address = |start: Option<usize>| start.map_or(0, |start| base + 4 * start as u64);
        Sequence {
            ring: self.ring,
            allowed: address(self.allowed),
            touched: address(self.touched),
            edit_list: address(self.edit_list),
            edit_list_length: self.edit_list_length,
            counts: address(self.counts),
            history: address(self.history),
            end_ids: address(self.end_ids),
            bias_ids: address(self.bias_ids),
            bias_values: address(self.bias_values),
            bad_words: address(self.bad_words),
            ..*record
        }
    }
}

/// How many last tokens an edit needs: those of the window, and those that a bad word is compared with.
fn ring(params: &SamplingParams, record: &Sequence) -> u32 {
    let longest = params.bad_words_ids.iter().map(Vec::len).max().unwrap_or(0);
    record.window.max(longest.saturating_sub(1) as u32)
}

/// 32 tokens per word, lowest bit first. Kernels read the words of a whole vector of blocks together.
fn bitmap(ids: impl Iterator<Item = u32>, vocabulary: usize) -> Vec<u32> {
    let mut words = vec![0; pitch(vocabulary) * BLOCK / 32];
    for id in ids {
        words[id as usize / 32] |= 1 << (id % 32);
    }
    words
}

/// The tokens of prompt and output that the window holds: each token, and whether it is of the prompt.
fn seen(params: &SamplingParams, record: &Sequence) -> impl Iterator<Item = (u32, bool)> {
    let length = params.prompt_token_ids.len() + params.output_token_ids.len();
    let forgotten = if record.window == 0 { 0 } else { length.saturating_sub(record.window as usize) };
    let prompt = params.prompt_token_ids.iter().map(|&token| (token, true));
    prompt.chain(params.output_token_ids.iter().map(|&token| (token, false))).skip(forgotten)
}

/// Two words per token: how often the window has it in the prompt, and in the output.
fn counts(params: &SamplingParams, record: &Sequence, vocabulary: usize) -> Vec<u32> {
    // Padded to a multiple of four tokens: kernels look at four at a time, and may read the counts of the ids
    // after the last token.
    let mut counts = vec![0; 2 * vocabulary.next_multiple_of(4)];
    for (token, is_prompt) in seen(params, record) {
        counts[2 * token as usize + usize::from(!is_prompt)] += 1;
    }
    counts
}

/// EOS ids, then stop ids.
fn ends(params: &SamplingParams) -> impl Iterator<Item = u32> {
    params.eos_token_id.iter().chain(&params.stop_token_ids).copied()
}

/// The tokens whose logits an edit may change.
fn touched(params: &SamplingParams, record: &Sequence) -> Vec<u32> {
    let mut touched: Vec<u32> = params.logit_bias.keys().copied().collect();
    touched.extend(params.bad_words_ids.iter().filter_map(|word| word.last()));
    if record.has(EditKind::MinTokens) {
        touched.extend(ends(params));
    }
    if record.has(EditKind::Penalties) {
        touched.extend(seen(params, record).map(|(token, _)| token));
    }
    touched
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::chain::Record;

    const BASE: u64 = 1 << 32;

    /// The record with its addresses, and the words behind one of them.
    fn made(params: &SamplingParams, vocabulary: usize) -> (Sequence, Tables) {
        let record = Record::new(params).expect("parameters that the device takes").sequence;
        let tables = Tables::new(params, &record, vocabulary);
        (tables.point(&record, BASE), tables)
    }

    fn at(tables: &Tables, address: u64, count: usize) -> &[u32] {
        assert_eq!(address % 16, 0, "aligned");
        let start = (address - BASE) as usize / 4;
        &tables.words[start..start + count]
    }

    #[test]
    fn plain_parameters_need_no_memory() {
        let params = SamplingParams { top_p: 0.5, prompt_token_ids: vec![1, 2], ..Default::default() };
        let (record, tables) = made(&params, 100);
        assert!(tables.words.is_empty());
        assert_eq!((record.touched, record.history, record.allowed), (0, 0, 0));
    }

    #[test]
    fn lists_lie_as_the_kernels_read_them() {
        let params = SamplingParams {
            bad_words_ids: vec![vec![4], vec![7, 8, 9], vec![1, 2]],
            min_tokens: 2,
            eos_token_id: vec![40],
            stop_token_ids: vec![3],
            logit_bias: [(64, 0.1), (5, -2.0)].into(),
            allowed_token_ids: Some(vec![0, 33, 64]),
            prompt_token_ids: vec![10, 11, 12],
            output_token_ids: vec![13, 14],
            ..Default::default()
        };
        let (record, tables) = made(&params, 65);
        assert_eq!(at(&tables, record.allowed, 4), [1, 1 << 1, 1, 0]);
        let touched = [1 << 4 | 1 << 9 | 1 << 2 | 1 << 3 | 1 << 5, 1 << 8, 1, 0];
        assert_eq!(at(&tables, record.touched, 4), touched, "the last ids of words, ends and biases");
        assert_eq!(
            at(&tables, record.edit_list, record.edit_list_length as usize),
            [2, 3, 4, 5, 9, 40, 64],
            "each once"
        );
        assert_eq!(at(&tables, record.end_ids, 2), [40, 3]);
        assert_eq!(at(&tables, record.bias_ids, 2), [5, 64]);
        assert_eq!(at(&tables, record.bias_values, 2), [(-2f32).to_bits(), 0.1f32.to_bits()]);
        assert_eq!(at(&tables, record.bad_words, 10), [0, 1, 4, 6, 4, 7, 8, 9, 1, 2]);
        assert_eq!(record.counts, 0);
        assert_eq!(record.ring, 2, "one less than the longest word");
        assert_eq!(at(&tables, record.history, 2), [14, 13], "token number i at i % 2");
    }

    #[test]
    fn counts_see_the_window() {
        let params = SamplingParams {
            presence_penalty: 1.0,
            penalty_window: 3,
            prompt_token_ids: vec![5, 6, 6],
            output_token_ids: vec![7, 6],
            ..Default::default()
        };
        let (record, tables) = made(&params, 8);
        assert_eq!(at(&tables, record.counts, 16), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 1]);
        assert_eq!(at(&tables, record.touched, 2), [1 << 6 | 1 << 7, 0]);
        let (record, padded) = made(&params, 9);
        assert_eq!(at(&padded, record.counts, 24)[16..], [0; 8], "of twelve tokens");
        let (record, tables) = made(&params, 8);
        assert_eq!((record.window, record.ring), (3, 3));
        assert_eq!(at(&tables, record.history, 3), [7, 6, 6], "tokens 3, 4 and 2");

        let (record, tables) = made(&SamplingParams { penalty_window: 0, ..params }, 8);
        assert_eq!(at(&tables, record.counts, 16)[10..], [1, 0, 2, 1, 0, 1]);
        assert_eq!((record.ring, record.history), (0, 0), "nobody leaves");
    }

    #[test]
    fn penalties_touch_tokens_to_come() {
        let (record, _) = made(&SamplingParams { repetition_penalty: 2.0, ..Default::default() }, 8);
        assert_ne!((record.touched, record.counts), (0, 0));
        assert_eq!(record.edit_list_length, 0);
    }
}
