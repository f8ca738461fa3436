//! A model's tokens, prepared once: a tree of their bytes, and those that JSON strings are full of, sorted out beforehand.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use llguidance::earley::SlicedBiasComputer;
use llguidance::{ParserFactory, panic_utils};
use toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::error::{GrammarError, one_line};

/// onedraw draws from up to this many tokens.
const MOST: usize = 1 << 20;

/// The tree counts in ten bits how far it has to climb.
const LONGEST: usize = 1 << 10;

/// What a text becomes: tokens, or nothing where the tokenizer cannot say.
type Cut = Box<dyn Fn(&str) -> Option<Vec<u32>> + Send + Sync>;

/// The tokens of a model, ready for grammars. A clone is the same vocabulary, at the cost of a pointer.
///
/// To build one takes a second or two for 200,000 tokens; a grammar after that, milliseconds.
#[derive(Clone)]
pub struct Vocabulary(Arc<Inner>);

struct Inner {
    factory: ParserFactory,
    /// A bit for each token that stands for text.
    text: Vec<u32>,
    eos: Vec<u32>,
    /// A bit for each token that ends a text.
    ends: Vec<u32>,
    len: usize,
}

impl Vocabulary {
    /// Begins with the bytes of every token, from id 0 on. Give as many as the model has logits. Tokens without bytes are never
    /// allowed: special tokens, and ids that the tokenizer does not know.
    ///
    /// With `onedraw_lm::Tokenizer`, which is needed later to cut text and so is shared:
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use onedraw_grammar::Vocabulary;
    /// use onedraw_lm::stories;
    ///
    /// let tokenizer = Arc::new(stories::tokenizer()?);
    /// let cutter = Arc::clone(&tokenizer);
    /// let vocabulary = Vocabulary::builder((0..4096).map(|token| tokenizer.bytes(token)))
    ///     .eos(stories::generation_config()?.eos_token_ids)
    ///     .cut_by(move |text| cutter.encode_plain(text).ok())
    ///     .build()?;
    /// assert_eq!(vocabulary.len(), 4096);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(tokens: impl IntoIterator<Item = impl AsRef<[u8]>>) -> VocabularyBuilder {
        let tokens = tokens.into_iter().map(|bytes| bytes.as_ref().to_vec()).collect();
        VocabularyBuilder { tokens, special: Vec::new(), eos: Vec::new(), cut: None }
    }

    /// The highest id, and one.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether there are no tokens: never, as one must end a text.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tokens that end a text.
    pub fn eos(&self) -> &[u32] {
        &self.0.eos
    }

    /// Whether a token ends a text.
    pub fn is_eos(&self, token: u32) -> bool {
        has(&self.0.ends, token)
    }

    /// The bytes that a token stands for; empty if it is never allowed or ends a text.
    pub fn bytes(&self, token: u32) -> &[u8] {
        self.0.factory.tok_env().tok_trie().token(token)
    }

    pub(crate) fn is_text(&self, token: u32) -> bool {
        has(&self.0.text, token)
    }

    /// Bits of the tokens that stand for text, as many words as a mask has.
    pub(crate) fn text_bits(&self) -> &[u32] {
        &self.0.text
    }

    /// Bits of the tokens that end a text.
    pub(crate) fn end_bits(&self) -> &[u32] {
        &self.0.ends
    }

    pub(crate) fn factory(&self) -> &ParserFactory {
        &self.0.factory
    }
}

/// Makes a [`Vocabulary`].
pub struct VocabularyBuilder {
    tokens: Vec<Vec<u8>>,
    special: Vec<u32>,
    eos: Vec<u32>,
    cut: Option<Cut>,
}

impl VocabularyBuilder {
    /// Tokens that are marks and not text, whatever bytes were given for them. They are never allowed.
    pub fn special(mut self, tokens: impl IntoIterator<Item = u32>) -> Self {
        self.special.extend(tokens);
        self
    }

    /// The tokens that end a text; there must be one.
    pub fn eos(mut self, tokens: impl IntoIterator<Item = u32>) -> Self {
        self.eos.extend(tokens);
        self
    }

    /// How the tokenizer cuts a text into tokens, without those that it puts around one. Where a grammar leaves no choice, the text is
    /// written in these tokens. A cut whose bytes are not those of the text (a tokenizer that adds a space, or sees a special token
    /// written out) is not used. Without `cut_by` no token is forced.
    pub fn cut_by(mut self, cut: impl Fn(&str) -> Option<Vec<u32>> + Send + Sync + 'static) -> Self {
        self.cut = Some(Box::new(cut));
        self
    }

    /// Does the work.
    pub fn build(self) -> Result<Vocabulary, GrammarError> {
        let Self { mut tokens, special, mut eos, cut } = self;
        let len = tokens.len();
        if len > MOST {
            return Err(GrammarError::Vocabulary(format!("{len} tokens are more than {MOST}")));
        }
        eos.sort_unstable();
        eos.dedup();
        let Some(&first_eos) = eos.first() else {
            return Err(GrammarError::Vocabulary("no token ends a text: give the ids with `eos`".into()));
        };
        for &token in eos.iter().chain(&special) {
            let bytes = tokens.get_mut(token as usize).ok_or_else(|| {
                GrammarError::Vocabulary(format!("token {token} is outside the vocabulary of {len}"))
            })?;
            bytes.clear();
        }
        // 0xFF is no byte of UTF-8, and marks special tokens in the tree.
        for bytes in tokens.iter_mut().filter(|bytes| bytes.len() > LONGEST || bytes.contains(&0xFF)) {
            bytes.clear();
        }
        let text =
            bits(len, (0..).zip(&tokens).filter(|(_, bytes)| !bytes.is_empty()).map(|(token, _)| token));
        let ends = bits(len, eos.iter().copied());
        let factory = panic_utils::catch_unwind(AssertUnwindSafe(|| {
            let trie = TokTrie::from(&TokRxInfo::new(len as u32, first_eos), &tokens).with_eos_tokens(&eos);
            // A vocabulary with a hole may not be able to write what is forced, or only in tokens that reach beyond it.
            let cut = cut.filter(|_| (0..0xFF_u8).all(|byte| trie.token_id_at_bytes(&[byte]).is_some()));
            let ff_tokens = cut.is_some();
            let environment: TokEnv = Arc::new(Environment { trie, cut });
            let capabilities = InferenceCapabilities { ff_tokens, ..InferenceCapabilities::default() };
            let mut factory =
                ParserFactory::new(&environment, capabilities, &SlicedBiasComputer::general_slices())?;
            factory.quiet();
            factory.limits_mut().verbose_errors = false;
            Ok(factory)
        }))
        .map_err(|cause| GrammarError::Vocabulary(one_line(&format!("{cause:#}"))))?;
        Ok(Vocabulary(Arc::new(Inner { factory, text, eos, ends, len })))
    }
}

/// What llguidance asks of a tokenizer.
struct Environment {
    trie: TokTrie,
    cut: Option<Cut>,
}

impl TokenizerEnv for Environment {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie.tokenize_with_greedy_fallback(bytes, |text| {
            let tokens = self.cut.as_ref().and_then(|cut| cut(text));
            tokens
                .filter(|tokens| tokens.iter().flat_map(|&token| self.trie.token(token)).eq(text.as_bytes()))
                .filter(|tokens| tokens.iter().all(|&token| !self.trie.token(token).is_empty()))
                .unwrap_or_else(|| self.trie.greedy_tokenize(text.as_bytes()))
        })
    }

    fn tokenize_is_canonical(&self) -> bool {
        self.cut.is_some()
    }
}

/// A set of tokens, 32 a word, lowest bit first.
fn bits(len: usize, tokens: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut words = vec![0; len.div_ceil(32)];
    for token in tokens {
        if let Some(word) = words.get_mut(token as usize / 32) {
            *word |= 1 << (token % 32);
        }
    }
    words
}

pub(crate) fn has(words: &[u32], token: u32) -> bool {
    words.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
}
