//! A language model that is a hash of the text, rules for its texts, and the loops that drive both.

use onedraw::speculate::{Draft, DraftTree, Law, Verdict, Verify};
use onedraw::{Batch, Constraint, ConstraintError, Row, Sampled, SequenceId, Step};
use onedraw_testkit::rows::{SplitMix64, gaussian};

/// A model whose rows depend on the whole text.
#[derive(Clone, Copy)]
pub struct Toy {
    pub seed: u64,
    pub vocabulary: usize,
    pub sharpness: f64,
}

impl Toy {
    pub fn row(&self, text: &[u32]) -> Vec<f32> {
        let mix = |hash: u64, &token: &u32| SplitMix64::new(hash ^ u64::from(token + 1)).next_u64();
        gaussian(text.iter().fold(self.seed, mix), self.vocabulary, self.sharpness)
    }

    /// The row after the text, and the rows after the nodes.
    pub fn rows(&self, text: &[u32], tree: &DraftTree) -> Vec<Vec<f32>> {
        let after = |node| {
            let way = tree.path(node).into_iter().map(|node| tree.tokens()[node]);
            self.row(&text.iter().copied().chain(way).collect::<Vec<u32>>())
        };
        std::iter::once(self.row(text)).chain((0..tree.len()).map(after)).collect()
    }
}

/// Rules that forbid every third token, in turn, and in which some tokens force the next two.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    pub text: Vec<u32>,
    vocabulary: u32,
    mask: Vec<u32>,
}

impl Rules {
    pub fn new(vocabulary: usize) -> Self {
        Self { text: Vec::new(), vocabulary: vocabulary as u32, mask: Vec::new() }
    }

    fn pending(&self) -> Vec<u32> {
        let forced = |back: usize| self.text.len().checked_sub(back).map(|place| self.text[place]);
        match (forced(1), forced(2)) {
            (Some(last), _) if last % 7 == 3 => {
                vec![(last + 1) % self.vocabulary, (last + 2) % self.vocabulary]
            }
            (Some(_), Some(first)) if first % 7 == 3 => vec![(first + 2) % self.vocabulary],
            _ => Vec::new(),
        }
    }
}

impl Constraint for Rules {
    fn mask(&mut self) -> Result<&[u32], ConstraintError> {
        let turn = self.text.len() as u32;
        self.mask = vec![0; self.vocabulary.div_ceil(32) as usize];
        for token in (0..self.vocabulary).filter(|token| !(token + turn).is_multiple_of(3)) {
            self.mask[token as usize / 32] |= 1 << (token % 32);
        }
        Ok(&self.mask)
    }

    fn forced(&mut self) -> Result<Vec<u32>, ConstraintError> {
        Ok(self.pending())
    }

    fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        self.text.push(token);
        Ok(())
    }

    fn rollback(&mut self, tokens: usize) -> Result<(), ConstraintError> {
        let length = self.text.len().checked_sub(tokens).ok_or_else(|| ConstraintError::new("too far"))?;
        self.text.truncate(length);
        Ok(())
    }

    fn fork(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

/// Appends the tokens that the rules force.
fn take_forced(batch: &mut Batch, id: SequenceId, rules: &mut Option<Rules>) {
    let Some(rules) = rules else { return };
    loop {
        let forced = rules.forced().expect("tokens");
        if forced.is_empty() {
            return;
        }
        for token in forced {
            batch.accept(id, token);
            rules.accept(token).expect("a token");
        }
    }
}

fn take(batch: &mut Batch, id: SequenceId, rules: &mut Option<Rules>, sampled: &Sampled) {
    batch.accept_sampled(id, sampled);
    if let Some(rules) = rules {
        rules.accept(sampled.token).expect("a token");
    }
}

/// Plain decoding of `length` tokens or a few more. Returns what was drawn.
pub fn plain(
    toy: &Toy,
    batch: &mut Batch,
    id: SequenceId,
    mut rules: Option<Rules>,
    length: usize,
) -> Vec<Sampled> {
    let mut drawn = Vec::new();
    loop {
        take_forced(batch, id, &mut rules);
        let text = batch.output(id).expect("a text").to_vec();
        if text.len() >= length {
            return drawn;
        }
        let row = toy.row(&text);
        let mask = rules.as_mut().map(|rules| rules.mask().expect("a mask"));
        let step = Step { sequence: id, row: Row::from(&row), mask };
        let sampled = batch.peek(&[step], 0).remove(0).expect("a token");
        take(batch, id, &mut rules, &sampled);
        drawn.push(sampled);
    }
}

/// Speculative decoding. Returns what was drawn, and every verdict. Checks that the sequence and the rules
/// are left unchanged.
pub fn speculate(
    toy: &Toy,
    batch: &mut Batch,
    id: SequenceId,
    mut rules: Option<Rules>,
    length: usize,
    verify: Verify,
    mut drafter: impl FnMut(&mut Batch, &[u32]) -> Draft,
) -> (Vec<Sampled>, Vec<Verdict>) {
    let (mut drawn, mut verdicts) = (Vec::new(), Vec::new());
    loop {
        take_forced(batch, id, &mut rules);
        let text = batch.output(id).expect("a text").to_vec();
        if text.len() >= length {
            return (drawn, verdicts);
        }
        let draft = drafter(batch, &text);
        let rows = toy.rows(&text, &draft.tree);
        let rows: Vec<Row<'_>> = rows.iter().map(Row::from).collect();
        let before = (batch.save(id), rules.clone().map(|rules| rules.text));
        let constraint = rules.as_mut().map(|rules| rules as &mut dyn Constraint);
        let verdict = batch.verify(id, &draft, &rows, constraint, verify).expect("a verdict");
        assert_eq!((batch.save(id), rules.clone().map(|rules| rules.text)), before, "{verify}");
        assert_eq!((verdict.error.as_ref(), verdict.sampled.len()), (None, verdict.path.len() + 1));
        for (sampled, &node) in verdict.sampled.iter().zip(&verdict.path) {
            assert_eq!(sampled.token, draft.tree.tokens()[node]);
        }
        for sampled in &verdict.sampled {
            if batch.output(id).expect("a text").len() < length {
                take(batch, id, &mut rules, sampled);
                drawn.push(sampled.clone());
            }
        }
        verdicts.push(verdict);
    }
}

/// A draft by `guess`, with `shape[d]` guesses after each node of depth d. The drafter is another toy.
pub fn guessed(batch: &mut Batch, id: SequenceId, drafter: &Toy, text: &[u32], shape: &[usize]) -> Draft {
    let mut draft = Draft::default();
    let mut open = vec![(None, batch.fork(id).expect("a fork"))];
    for &count in shape {
        for (node, fork) in std::mem::take(&mut open) {
            let row = drafter.row(batch.output(fork).expect("a text"));
            let (tokens, law) = batch.guess(&Step::new(fork, &row), count, text.len()).expect("guesses");
            assert!(matches!(law, Law::Drawn(_)));
            for (child, token) in draft.grow(node, &tokens, law).into_iter().zip(tokens) {
                let further = batch.fork(fork).expect("a fork");
                batch.accept(further, token);
                open.push((Some(child), further));
            }
            batch.remove(fork);
        }
    }
    for (_, fork) in open {
        batch.remove(fork);
    }
    draft
}
