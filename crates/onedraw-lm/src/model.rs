//! What the decode loops need of a language model: logits for positions of sequences, and a memory that can
//! be cut back and forked.

use crate::error::ModelError;

/// A model that gives logits for the next token.
///
/// The logits of a position must depend only on the tokens up to it: not on the other runs of the call, and
/// not on how the tokens before it were divided into calls. Then a text is the same alone and in any batch.
pub trait LanguageModel: Sync {
    /// What the model remembers of one sequence. A clone is a fork.
    type Sequence: Sequence + Send + Sync + 'static;

    /// How many tokens there are: the length of a row of logits.
    fn vocabulary(&self) -> usize;

    /// How many positions a sequence can have.
    fn context(&self) -> usize;

    /// How many layers there are, for early exits and states; 0 if the model has neither.
    fn layers(&self) -> usize {
        0
    }

    /// An empty sequence.
    fn start(&self) -> Self::Sequence;

    /// Appends tokens to sequences, all in one pass, and answers what is asked of their positions. After an
    /// error no sequence has changed.
    fn forward(&self, runs: &mut [Run<'_, Self::Sequence>]) -> Result<Vec<Answer>, ModelError>;

    /// Runs work that calls the model several times, such as a step with guesses. A model with threads of its
    /// own runs it on one of them, which saves a change of threads for every pass.
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

    /// Whether it has no positions.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all positions from `length` on.
    fn cut(&mut self, length: usize);

    /// Keeps, of the last run, which was a tree, the tokens at these places; they must be a path from the end
    /// of the text. The others are forgotten. An error if it is not such a path; then nothing changes.
    fn keep(&mut self, path: &[usize]) -> Result<(), ModelError>;
}

/// What the decode loop needs of a [`Tokenizer`](crate::Tokenizer): the bytes of tokens and, for parameters that
/// are text, the tokens of words.
pub trait Vocabulary: Sync {
    /// The bytes of a token in running text; empty for tokens that are not text, such as the one that ends a
    /// text. They may end within a character.
    fn bytes(&self, token: u32) -> &[u8];

    /// The tokens of a text, and no others around them; `None` where text cannot be cut into tokens.
    fn cut(&self, _text: &str) -> Option<Vec<u32>> {
        None
    }

    /// The special token of that name, such as `</s>`.
    fn special(&self, _name: &str) -> Option<u32> {
        None
    }
}

/// How many tokens of prompts a pass takes at most, unless set otherwise: a multiple of the four positions
/// that a tile of a matrix product takes, and few enough that other texts do not wait long.
pub const CHUNK: usize = 128;

/// Tokens for one sequence.
#[derive(Debug)]
pub struct Run<'a, S> {
    /// The sequence to append to.
    pub sequence: &'a mut S,
    /// The tokens, one for each position.
    pub tokens: &'a [u32],
    /// If the tokens are a tree: for each token the place of its parent among them, which comes before it;
    /// `None` for those that follow the sequence. After such a run [`keep`](Sequence::keep) must be called.
    pub parents: Option<&'a [Option<usize>]>,
    /// The first tokens, if they went through the first layers already.
    pub known: Option<Known<'a>>,
    /// What is asked of the positions.
    pub asks: Asks<'a>,
}

/// Positions that an earlier run with an [early exit](Asks::exit) put into the sequence. They are the first
/// tokens of the run that takes them through the other layers.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// How many layers they went through.
    pub layers: usize,
    /// Their states after these layers, one after the other, for all positions of the sequence that did not
    /// go through all layers.
    pub states: &'a [f32],
}

/// What is asked of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asks<'a> {
    /// The positions whose logits are wanted.
    pub logits: Wanted,
    /// Exit after this many layers: the norm and the head follow right after them. Before a later run goes
    /// through all layers, the positions must be [`cut`](Sequence::cut) or given as [`Known`].
    pub exit: Option<usize>,
    /// The numbers of layers after which the states of every position are wanted too (0: the embeddings).
    pub states: &'a [usize],
    /// Whether the logits of frequent tokens are enough. A model that knows its frequent tokens then gives
    /// −inf for the others.
    pub frequent: bool,
}

/// Positions of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// None: the tokens are only remembered.
    Nothing,
    /// The last one.
    #[default]
    Last,
    /// This many of the last ones.
    Tail(usize),
    /// All.
    All,
}

impl Wanted {
    /// How many rows of logits that are, for a run of this many positions.
    pub fn rows(self, positions: usize) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Last => positions.min(1),
            Self::Tail(rows) => rows.min(positions),
            Self::All => positions,
        }
    }
}

/// The answer to one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The wanted rows of logits, one after the other.
    pub logits: Vec<f32>,
    /// The wanted states: for each number of layers, those of all positions, one after the other.
    pub states: Vec<Vec<f32>>,
}

impl<'a, S> Run<'a, S> {
    /// Tokens that follow each other, asking for the logits of the last.
    pub fn line(sequence: &'a mut S, tokens: &'a [u32]) -> Self {
        Self { sequence, tokens, parents: None, known: None, asks: Asks::default() }
    }
}
