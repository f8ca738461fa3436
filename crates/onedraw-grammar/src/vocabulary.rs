//! The tokens of a model, prepared once for all grammars: a trie of their bytes, and slices of tokens that
//! are frequent in JSON strings.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use llguidance::earley::SlicedBiasComputer;
use llguidance::{ParserFactory, panic_utils};
use toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::error::{GrammarError, one_line};

/// onedraw draws from up to this many tokens.
const MAX_TOKENS: usize = 1 << 20;

/// The longest token in bytes: a node of the trie has ten bits for the number of its parents.
const MAX_TOKEN_BYTES: usize = 1 << 10;

/// Divides a text into tokens; `None` where the tokenizer cannot.
type Cut = Box<dyn Fn(&str) -> Option<Vec<u32>> + Send + Sync>;

/// The tokens of a model, prepared for grammars. A clone shares them.
///
/// Building one takes a second or two for 200,000 tokens; compiling a grammar after that takes milliseconds.
#[derive(Clone)]
pub struct Vocabulary(Arc<Inner>);

struct Inner {
    factory: ParserFactory,
    /// A bit for each token: whether it stands for text.
    text: Vec<u32>,
    eos: Vec<u32>,
    /// A bit for each token: whether it ends a text.
    ends: Vec<u32>,
    len: usize,
}

impl Vocabulary {
    /// Begins with the bytes of every token, from id 0 on. There must be as many as the model has logits.
    /// Tokens without bytes are never allowed: special tokens, and ids that the tokenizer does not know.
    ///
    /// With `onedraw_lm::Tokenizer`, which is shared because it divides text later on:
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

    /// The highest id plus one.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether there are no tokens. Never true, because at least one token ends a text.
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

    /// The bytes that a token stands for; empty if it is never allowed, or ends a text.
    pub fn bytes(&self, token: u32) -> &[u8] {
        self.0.factory.tok_env().tok_trie().token(token)
    }

    pub(crate) fn is_text(&self, token: u32) -> bool {
        has(&self.0.text, token)
    }

    /// The bits of the tokens that stand for text, in as many words as a mask has.
    pub(crate) fn text_bits(&self) -> &[u32] {
        &self.0.text
    }

    /// The bits of the tokens that end a text.
    pub(crate) fn end_bits(&self) -> &[u32] {
        &self.0.ends
    }

    pub(crate) fn factory(&self) -> &ParserFactory {
        &self.0.factory
    }
}

/// Builds a [`Vocabulary`].
pub struct VocabularyBuilder {
    tokens: Vec<Vec<u8>>,
    special: Vec<u32>,
    eos: Vec<u32>,
    cut: Option<Cut>,
}

impl VocabularyBuilder {
    /// Adds tokens that are marks and not text, whatever bytes were given for them. They are never allowed.
    pub fn special(mut self, tokens: impl IntoIterator<Item = u32>) -> Self {
        self.special.extend(tokens);
        self
    }

    /// Adds tokens that end a text. There must be at least one.
    pub fn eos(mut self, tokens: impl IntoIterator<Item = u32>) -> Self {
        self.eos.extend(tokens);
        self
    }

    /// Sets how the tokenizer divides a text into tokens, without those that it puts around one. Where a
    /// grammar leaves no choice, the text is written in these tokens. They are not used if their bytes are
    /// not those of the text (a tokenizer that adds a space, or recognises a special token that is written
    /// out). Without `cut_by` no token is forced.
    pub fn cut_by(mut self, cut: impl Fn(&str) -> Option<Vec<u32>> + Send + Sync + 'static) -> Self {
        self.cut = Some(Box::new(cut));
        self
    }

    /// Builds the vocabulary. An error if it is too large, no token ends a text, or an id is outside of it.
    pub fn build(self) -> Result<Vocabulary, GrammarError> {
        let Self { mut tokens, special, mut eos, cut } = self;
        let len = tokens.len();
        if len > MAX_TOKENS {
            return Err(GrammarError::Vocabulary(format!("{len} tokens are more than {MAX_TOKENS}")));
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
        // 0xFF never occurs in UTF-8; it marks special tokens in the trie.
        for bytes in tokens.iter_mut().filter(|bytes| bytes.len() > MAX_TOKEN_BYTES || bytes.contains(&0xFF))
        {
            bytes.clear();
        }
        let text =
            bits(len, (0..).zip(&tokens).filter(|(_, bytes)| !bytes.is_empty()).map(|(token, _)| token));
        let ends = bits(len, eos.iter().copied());
        let factory = panic_utils::catch_unwind(AssertUnwindSafe(|| {
            let trie = TokTrie::from(&TokRxInfo::new(len as u32, first_eos), &tokens).with_eos_tokens(&eos);
            // A vocabulary that lacks a byte may be unable to write what is forced, or only in tokens that
            // reach beyond it.
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

/// A set of tokens, 32 in each word, the lowest bit first.
fn bits(len: usize, tokens: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut words = vec![0; len.div_ceil(32)];
    for token in tokens {
        if let Some(word) = words.get_mut(token as usize / 32) {
            *word |= 1 << (token % 32);
        }
    }
    words
}

fn has(words: &[u32], token: u32) -> bool {
    words.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1)
}
