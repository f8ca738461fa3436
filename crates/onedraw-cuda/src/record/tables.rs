//! What a sequence keeps on the device beside its record and its text: bitmaps, counts, lists. All of it is one
//! allocation, filled on the host. Only the counts may be left to the device: they are the largest part.

use onedraw::SamplingParams;
use onedraw::history::History;
use onedraw::noise::BLOCK;
use onedraw::stages::edit::Edit;

use super::chain::Record;
use super::layout::{EditKind, Sequence, StageKind, pitch};
use super::shared::{EDIT_LIST_CAPACITY, NEAR_EDITS};

/// Sections begin at multiples of so many words: 16 bytes, the most that a kernel reads at once.
const ALIGNMENT: usize = 4;

/// The words of the allocation, and where in it the record's addresses point.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tables {
    pub words: Vec<u32>,
    /// Words of the allocation after these, which the device fills.
    pub left_open: usize,
    allowed: Option<usize>,
    touched: Option<usize>,
    edit_list: Option<usize>,
    /// The number of tokens that an edit may change.
    edit_list_length: u32,
    counts: Option<usize>,
    end_ids: Option<usize>,
    bias_ids: Option<usize>,
    bias_values: Option<usize>,
    bad_words: Option<usize>,
    protected_ids: Option<usize>,
    protected_count: u32,
    chains: [Option<usize>; 2],
    chain_lengths: [u32; 2],
    late_allowed: Option<usize>,
    breakers: Option<usize>,
    bans: Option<usize>,
    ban_count: u32,
    far_edits: Option<usize>,
}

impl Tables {
    /// The tables of a record. The ids of its parameters must all be tokens of the vocabulary.
    pub(crate) fn new(params: &SamplingParams, record: &Record, vocabulary: usize) -> Self {
        let mut tables = Self::without_counts(params, record, vocabulary);
        if record.has(EditKind::Penalties) {
            let history = history(params, record);
            tables.counts = tables.push(counts(&history, vocabulary));
        }
        tables
    }

    /// The tables of a record whose text the device counts.
    pub(crate) fn before_text(params: &SamplingParams, record: &Record, vocabulary: usize) -> Self {
        let mut tables = Self::without_counts(params, record, vocabulary);
        if record.has(EditKind::Penalties) {
            tables.counts = Some(tables.words.len());
            tables.left_open = words_of_counts(vocabulary);
        }
        tables
    }

    fn without_counts(params: &SamplingParams, record: &Record, vocabulary: usize) -> Self {
        let mut tables = Self::default();
        let history = history(params, record);
        if let Some(ids) = record.edits().find_map(allowed) {
            let bits = tables.push(bitmap(ids.iter().copied(), vocabulary));
            match record.allows_late() {
                true => tables.late_allowed = bits,
                false => tables.allowed = bits,
            }
        }
        for (which, chain) in record.chains.iter().enumerate() {
            tables.chain_lengths[which] = chain.len() as u32;
            // Both are often the same, and a plain chain is in the record.
            tables.chains[which] = match chain.is_empty() || record.sequence.is_plain != 0 {
                true => None,
                false if which == 1 && *chain == record.chains[0] => tables.chains[0],
                false => tables.push(bytemuck::cast_slice(chain).to_vec()),
            };
        }
        let mut touched: Vec<u32> = record.edits().flat_map(Edit::touched).collect();
        if record.has(EditKind::Penalties) {
            touched.extend(history.seen().iter().map(|seen| seen.token));
        }
        if !record.banned.is_empty() {
            touched.extend(&record.banned);
            tables.ban_count = record.banned.len() as u32;
            tables.bans = tables.push(record.banned.clone());
        }
        if !touched.is_empty() || record.has(EditKind::Penalties) || record.sequence.has_repeats() {
            tables.touched = tables.push(bitmap(touched.iter().copied(), vocabulary));
            touched.sort_unstable();
            touched.dedup();
            tables.edit_list_length = touched.len() as u32;
            touched.resize(EDIT_LIST_CAPACITY, 0);
            tables.edit_list = tables.push(touched);
        }
        if record.chains[0].iter().any(|stage| stage.kind == StageKind::Xtc as u32) {
            let mut ids = params.xtc_protected_token_ids.clone();
            ids.sort_unstable();
            ids.dedup();
            tables.protected_count = ids.len() as u32;
            if !ids.is_empty() {
                tables.protected_ids = tables.push(ids);
            }
        }
        if let Some(far @ [_, ..]) = record.kinds.get(NEAR_EDITS..) {
            tables.far_edits = tables.push(packed(far));
        }
        if record.sequence.breaker_count > 0 {
            tables.breakers = tables.push(token_lists(&params.dry_sequence_breakers));
        }
        // Where a stage stands twice, both read the tables of the first.
        for edit in record.edits() {
            match edit {
                Edit::MinTokens(edit) if tables.end_ids.is_none() => {
                    tables.end_ids = tables.push(edit.ends().to_vec());
                }
                Edit::LogitBias(edit) if tables.bias_ids.is_none() => {
                    let (ids, values): (Vec<u32>, Vec<u32>) =
                        edit.biases().iter().map(|&(id, bias)| (id, bias.to_bits())).unzip();
                    tables.bias_ids = tables.push(ids);
                    tables.bias_values = tables.push(values);
                }
                Edit::BadWords(edit) if tables.bad_words.is_none() => {
                    tables.bad_words = tables.push(word_lists(edit.words()));
                }
                _ => {}
            }
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
            allowed: address(self.allowed),
            touched: address(self.touched),
            edit_list: address(self.edit_list),
            edit_list_length: self.edit_list_length,
            counts: address(self.counts),
            end_ids: address(self.end_ids),
            bias_ids: address(self.bias_ids),
            bias_values: address(self.bias_values),
            bad_words: address(self.bad_words),
            protected_ids: address(self.protected_ids),
            protected_count: self.protected_count,
            chains: self.chains.map(address),
            chain_lengths: self.chain_lengths,
            late_allowed: address(self.late_allowed),
            breakers: address(self.breakers),
            bans: address(self.bans),
            ban_count: self.ban_count,
            ban_place: record.length,
            far_edits: address(self.far_edits),
            ..*record
        }
    }
}

/// The text of the parameters, as far as penalties see it.
fn history(params: &SamplingParams, record: &Record) -> History {
    History::new(&params.prompt_token_ids, &params.output_token_ids, record.sequence.window)
}

/// The list of allowed ids, if the edit has one.
fn allowed(edit: &Edit) -> Option<&[u32]> {
    match edit {
        Edit::Allowed(allowed) => allowed.ids(),
        _ => None,
    }
}

/// Bytes in words, lowest first.
fn packed(bytes: &[u8]) -> Vec<u32> {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
    bytes.chunks(size_of::<u32>()).map(word).collect()
}

/// First where each list begins, and where the last ends, then the tokens of all.
fn token_lists(lists: &[Vec<u32>]) -> Vec<u32> {
    let mut words = vec![0];
    words.extend(lists.iter().scan(0, |end, list| {
        *end += list.len() as u32;
        Some(*end)
    }));
    words.extend(lists.iter().flatten());
    words
}

/// Where each word ends, counted from 0 and in tokens, then the tokens of all words.
fn word_lists(words: &[(Vec<u32>, u32)]) -> Vec<u32> {
    let mut list = vec![0];
    list.extend(words.iter().scan(0, |end, (beginning, _)| {
        *end += beginning.len() as u32 + 1;
        Some(*end)
    }));
    list.extend(words.iter().flat_map(|(beginning, last)| beginning.iter().chain([last])));
    list
}

/// Words of a bitmap: kernels read those of a whole vector of blocks together.
pub(crate) fn words_of_bitmap(vocabulary: usize) -> usize {
    pitch(vocabulary) * BLOCK / 32
}

/// 32 tokens per word, lowest bit first.
fn bitmap(ids: impl Iterator<Item = u32>, vocabulary: usize) -> Vec<u32> {
    let mut words = vec![0; words_of_bitmap(vocabulary)];
    for id in ids {
        words[id as usize / 32] |= 1 << (id % 32);
    }
    words
}

/// Two words per token. Padded to a multiple of four tokens: kernels look at four at a time, and may read the
/// counts of the ids after the last token.
fn words_of_counts(vocabulary: usize) -> usize {
    2 * vocabulary.next_multiple_of(4)
}

/// Two words per token: how often the window has it in the prompt, and in the output.
fn counts(history: &History, vocabulary: usize) -> Vec<u32> {
    let mut counts = vec![0; words_of_counts(vocabulary)];
    for seen in history.seen() {
        counts[2 * seen.token as usize] = seen.in_prompt;
        counts[2 * seen.token as usize + 1] = seen.in_output;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 1 << 32;

    /// The record with its addresses, and the words behind one of them.
    fn made(params: &SamplingParams, vocabulary: usize) -> (Sequence, Tables) {
        let record = Record::new(params).expect("parameters that the device takes");
        let tables = Tables::new(params, &record, vocabulary);
        (tables.point(&record.sequence, BASE), tables)
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
        assert_eq!((record.touched, record.edit_list, record.allowed), (0, 0, 0));
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
    }

    #[test]
    fn the_edits_of_a_long_chain_go_on_in_a_table() {
        let of = |count: usize| {
            let stages = [vec![onedraw::Stage::LogitBias; count], vec![onedraw::Stage::Allowed]].concat();
            let (logit_bias, order) = ([(5, -2.0)].into(), Some(onedraw::Order::of(stages)));
            made(&SamplingParams { logit_bias, order, ..Default::default() }, 65)
        };
        // Bans come first, allowed ids last.
        let (record, _) = of(NEAR_EDITS - 2);
        assert_eq!((record.near_edits[0], record.near_edits[NEAR_EDITS - 1]), (8, 5));
        assert_eq!((record.edits, record.far_edits), (32, 0));
        let (record, tables) = of(NEAR_EDITS + 4);
        assert_eq!((record.edits, record.near_edits[NEAR_EDITS - 1]), (38, 3));
        assert_eq!(at(&tables, record.far_edits, 3), [0x0303_0303, 0x0000_0503, 0]);
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
        let (record, tables) = made(&SamplingParams { penalty_window: 0, ..params }, 8);
        assert_eq!(at(&tables, record.counts, 16)[10..], [1, 0, 2, 1, 0, 1]);
    }

    #[test]
    fn counts_may_be_left_to_the_device() {
        let params = SamplingParams {
            presence_penalty: 1.0,
            logit_bias: [(3, 1.0)].into(),
            bad_words_ids: vec![vec![1, 2]],
            ..Default::default()
        };
        let record = Record::new(&params).expect("parameters that the device takes");
        let (whole, open) = (Tables::new(&params, &record, 9), Tables::before_text(&params, &record, 9));
        assert_eq!((whole.left_open, open.left_open), (0, 24));
        assert_eq!(whole.words[..open.words.len()], open.words);
        assert_eq!(whole.words.len(), open.words.len() + open.left_open);
        assert_eq!(whole.point(&record.sequence, BASE), open.point(&record.sequence, BASE));
    }

    #[test]
    fn penalties_touch_tokens_to_come() {
        let (record, _) = made(&SamplingParams { repetition_penalty: 2.0, ..Default::default() }, 8);
        assert_ne!((record.touched, record.counts), (0, 0));
        assert_eq!(record.edit_list_length, 0);
    }
}
