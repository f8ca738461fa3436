//! Drafts as the judging kernel reads them, and the memory of laws.

use std::sync::Arc;

use cudarc::driver::CudaContext;
use onedraw::RowError;
use onedraw::speculate::{Draft, Law, Probabilities, Typical, Verify};

use super::drafts::DraftTurn;
use crate::error::CudaError;
use crate::memory::Array;
use crate::record::layout::{Rule, Trial};
use crate::stream::Stream;

/// Drafts that are judged by laws, in device memory. It must be kept until the stream has done every launch
/// that has its addresses.
#[derive(Debug)]
pub(super) struct Trials {
    trials: Array<Trial>,
    count: usize,
    /// For each draft its place among the trials; `None` for a draft that is not judged.
    places: Vec<Option<usize>>,
    /// One number for each token of every row, which the device writes.
    laws: Array<f64>,
    /// The drafters' laws, as the device reads them.
    _drawn: Array<f64>,
    /// For each row the address of its law among these, or 0.
    _addresses: Array<u64>,
    _shares: Array<f64>,
    /// The tokens of the nodes, then for each node the row that it follows.
    _nodes: Array<u32>,
}

impl Trials {
    /// Copies drafts to the device. For rejection and blocks, every admitted draft must have been
    /// [checked](Draft::check_laws) for the vocabulary.
    pub(super) fn new(
        context: &Arc<CudaContext>,
        stream: Stream<'_>,
        drafts: &[DraftTurn<'_>],
        admitted: &[Result<(), RowError>],
        verify: Verify,
        vocabulary: usize,
    ) -> Result<Self, CudaError> {
        let rows: usize = drafts.iter().map(DraftTurn::rows).sum();
        let judged: Vec<&DraftTurn<'_>> = drafts
            .iter()
            .zip(admitted)
            .filter(|(_, admitted)| admitted.is_ok())
            .map(|(turn, _)| turn)
            .collect();
        let (rule, Typical { threshold, alpha }) = match verify {
            Verify::Typical(typical) => (Rule::Typical, typical),
            Verify::Block => (Rule::Block, Typical::default()),
            _ => (Rule::Rejection, Typical::default()),
        };
        // Where likely guesses are accepted, nobody asks what they were drawn from.
        let drawn = |draft| drawn(draft).map(|law| law.filter(|_| rule != Rule::Typical));
        let nodes: usize = judged.iter().map(|turn| turn.draft.tree.len()).sum();
        let count: usize = judged.iter().map(|turn| drawn(turn.draft).flatten().count()).sum();
        let laws = Array::uninitialised(context, rows * vocabulary)?;
        let drawn_laws = Array::uninitialised(context, count * vocabulary)?;
        let addresses = Array::uninitialised(context, rows)?;
        let shares: Array<f64> = Array::uninitialised(context, rows)?;
        let node_memory = Array::uninitialised(context, 2 * nodes)?;

        let (mut trials, mut places) = (Vec::new(), Vec::new());
        let (mut tokens, mut parents) = (Vec::with_capacity(nodes), Vec::with_capacity(nodes));
        let mut pointers = vec![0u64; rows];
        let (mut first, mut written) = (0, 0);
        for (turn, admitted) in drafts.iter().zip(admitted) {
            places.push(admitted.is_ok().then_some(trials.len()));
            if admitted.is_ok() {
                let tree = &turn.draft.tree;
                trials.push(Trial {
                    tokens: node_memory.address() + 4 * tokens.len() as u64,
                    parents: node_memory.address() + 4 * (nodes + tokens.len()) as u64,
                    drawn: addresses.address() + 8 * first as u64,
                    shares: shares.address() + 8 * first as u64,
                    slot: turn.sequence.slot(),
                    first: first as u32,
                    nodes: tree.len() as u32,
                    rule: rule as u32,
                    threshold,
                    alpha,
                    ..Trial::default()
                });
                tokens.extend_from_slice(tree.tokens());
                parents
                    .extend(tree.parents().iter().map(|parent| parent.map_or(0, |parent| parent as u32 + 1)));
                for (row, law) in drawn(turn.draft).enumerate() {
                    let Some(law) = law else { continue };
                    drawn_laws.write(stream, written * vocabulary, &dense(law, vocabulary))?;
                    pointers[first + row] = drawn_laws.address() + 8 * (written * vocabulary) as u64;
                    written += 1;
                }
            }
            first += turn.rows();
        }
        tokens.extend(parents);
        node_memory.write(stream, 0, &tokens)?;
        addresses.write(stream, 0, &pointers)?;
        let memory = Array::uninitialised(context, trials.len())?;
        memory.write(stream, 0, &trials)?;
        Ok(Self {
            trials: memory,
            count: trials.len(),
            places,
            laws,
            _drawn: drawn_laws,
            _addresses: addresses,
            _shares: shares,
            _nodes: node_memory,
        })
    }

    /// The addresses of the laws and of the trials.
    pub(super) fn addresses(&self) -> (u64, u64) {
        (self.laws.address(), self.trials.address())
    }

    /// How many drafts are judged.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// How many guesses of each draft hold, once the stream has judged them, by any rule but rejection; 0 for
    /// drafts that are not judged.
    pub(super) fn lengths(&self, stream: Stream<'_>) -> Result<Vec<usize>, CudaError> {
        let mut trials = vec![Trial::default(); self.count];
        self.trials.read(stream, 0, &mut trials)?;
        Ok(self.places.iter().map(|place| place.map_or(0, |place| trials[place].length as usize)).collect())
    }
}

/// For the text and every node, the law that its guesses were drawn from; `None` if there are no guesses, or
/// if they were given.
fn drawn(draft: &Draft) -> impl Iterator<Item = Option<&Probabilities>> {
    let mut has_guesses = vec![false; draft.tree.len() + 1];
    for parent in draft.tree.parents() {
        has_guesses[parent.map_or(0, |parent| parent + 1)] = true;
    }
    has_guesses.into_iter().enumerate().map(|(row, has_guesses)| match draft.laws.get(row) {
        Some(Law::Drawn(law)) if has_guesses => Some(law),
        _ => None,
    })
}

/// A probability for every token.
fn dense(law: &Probabilities, vocabulary: usize) -> Vec<f64> {
    let mut values = vec![0.0; vocabulary];
    for (&token, &value) in law.tokens().iter().zip(law.values()) {
        values[token as usize] = value;
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_without_guesses_are_left_out() {
        let law = |token| Law::Drawn(Probabilities::new([(token, 0.5), (3, 0.5)]).expect("a law"));
        let mut draft = Draft::default();
        draft.grow(None, &[1], law(1));
        draft.grow(Some(0), &[2, 3], Law::Given);
        draft.grow(Some(1), &[4], law(4));
        // A node without children may have any law, of any vocabulary.
        draft.laws[4] = law(1000);
        let found: Vec<bool> = drawn(&draft).map(|law| law.is_some()).collect();
        assert_eq!(found, [true, false, true, false, false]);
        assert_eq!(dense(drawn(&draft).flatten().next().expect("a law"), 5), [0.0, 0.5, 0.0, 0.5, 0.0]);
        assert_eq!(drawn(&Draft::chain(&[1])).flatten().count(), 0);
    }
}
