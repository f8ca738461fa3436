//! What a language model is to the decode loops: logits for positions of sequences, and a memory that can be cut back and forked.

use crate::error::ModelError;

/// A model that gives logits for the next token.
///
/// The logits of a position must depend on the tokens up to it and on nothing else: not on what else is in the call, nor on how the tokens before it were
/// spread over calls. Then text is the same alone and in any batch.
pub trait LanguageModel: Sync {
    /// What the model remembers of one sequence. A clone is a fork.
    type Sequence: Sequence + Send + Sync;

    /// How many tokens there are: the length of a row of logits.
    fn vocabulary(&self) -> usize;

    /// How many positions a sequence can have.
    fn context(&self) -> usize;

    /// How many layers there are to leave early from, or to ask states of; 0: it cannot be asked.
    fn layers(&self) -> usize {
        0
    }

    /// An empty sequence.
    fn start(&self) -> Self::Sequence;

    /// Appends tokens to sequences, all in one pass, and gives what was asked of their positions. On an error no sequence has changed.
    fn forward(&self, runs: &mut [Run<'_, Self::Sequence>]) -> Result<Vec<Answer>, ModelError>;

    /// Runs work that asks the model several times, such as a step with guesses. A model with threads of its own runs it on one of them, so that it need not change threads
    /// for every pass.
    fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R
    where
        Self: Sized,
    {
        work()
    }
}

/// What a model remembers of one sequence.
pub trait Sequence: Clone {
    /// How many positions it has.
    fn len(&self) -> usize;

    /// Whether it has none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all positions from `length` on.
    fn cut(&mut self, length: usize);

    /// Of the last run, which was a tree, keeps the tokens at these places: a path from the root. The others are forgotten. What is no such path is an
    /// error, and nothing is kept.
    fn keep(&mut self, path: &[usize]) -> Result<(), ModelError>;
}

/// What tokens stand for in running text: all that the decode loop asks of a [`Tokenizer`](crate::Tokenizer).
pub trait Vocabulary: Sync {
    /// The bytes of a token; none for one that is no text, such as the end of one. They may end within a character.
    fn bytes(&self, token: u32) -> &[u8];
}

/// Tokens for one sequence.
#[derive(Debug)]
pub struct Run<'a, S> {
    /// Whose.
    pub sequence: &'a mut S,
    /// The tokens, one position each.
    pub tokens: &'a [u32],
    /// Where the tokens are a tree: for each the place of its parent among them, which comes before it; `None` follows the sequence so far. After such a run
    /// the sequence must be told what to [`keep`](Sequence::keep).
    pub parents: Option<&'a [Option<usize>]>,
    /// What went through the first layers already.
    pub known: Option<Known<'a>>,
    /// What is asked.
    pub asks: Asks<'a>,
}

/// Positions that a run which left [early](Asks::exit) has put into the sequence: the first tokens of the run that takes them on, through the other layers.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The layers that they went through.
    pub layers: usize,
    /// Their states after these, one after the other: of all positions of the sequence that did not go through all layers.
    pub states: &'a [f32],
}

/// What is asked of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asks<'a> {
    /// Of which positions logits are wanted.
    pub logits: Wanted,
    /// Leave after this many layers: the norm and the head come right after them. The positions must be [`cut`](Sequence::cut), or taken on as
    /// [`Known`], before the sequence goes on through all layers.
    pub exit: Option<usize>,
    /// The states after these many layers are wanted too (0: the embeddings), of every position.
    pub states: &'a [usize],
    /// Logits of frequent tokens will do. A model that knows which ones gives −inf for the others; one that does not gives all.
    pub frequent: bool,
}

/// Positions of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Of none: the tokens are only remembered.
    Nothing,
    /// Of the last one.
    #[default]
    Last,
    /// Of the last so many.
    Tail(usize),
    /// Of all.
    All,
}

impl Wanted {
    /// How many rows that is, of so many positions.
    pub fn rows(self, positions: usize) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Last => positions.min(1),
            Self::Tail(rows) => rows.min(positions),
            Self::All => positions,
        }
    }
}

/// What a model says of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The rows of logits that were wanted, one after the other.
    pub logits: Vec<f32>,
    /// The states that were wanted: for each number of layers, those of all positions one after the other.
    pub states: Vec<Vec<f32>>,
}

impl<'a, S> Run<'a, S> {
    /// Tokens in a line, with logits of the last.
    pub fn line(sequence: &'a mut S, tokens: &'a [u32]) -> Self {
        Self { sequence, tokens, parents: None, known: None, asks: Asks::default() }
    }
}
