//! The model that is served.

use std::sync::{Arc, OnceLock};

use onedraw::speculate::Verify;
use onedraw::{ConstraintText, Kernel, STREAM_VERSION};
use onedraw_grammar::{Grammar, GrammarError, Vocabulary};
use onedraw_lab::Subject;
use onedraw_lm::speculate::{Guesser, Speculation};
use onedraw_lm::{ChatTemplate, GenerationConfig, LanguageModel, Llama, Tokenizer};

/// Who guesses ahead, and how.
pub struct Drafting {
    /// The drafter of the model.
    pub guesser: Guesser,
    /// How far it guesses, and how its guesses are verified.
    pub speculation: Speculation,
}

/// A drafter that the laboratory offers.
pub(crate) struct Offer {
    pub name: String,
    pub sentence: String,
    pub guesser: Guesser,
}

/// A model, and what belongs to it.
pub struct Model {
    pub(crate) name: String,
    pub(crate) llama: Llama,
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) generation: GenerationConfig,
    pub(crate) template: Option<ChatTemplate>,
    pub(crate) drafting: Option<Drafting>,
    /// What the laboratory's questions are about.
    pub(crate) subject: Subject,
    pub(crate) offers: Vec<Offer>,
    /// Draws with this instruction set.
    pub(crate) kernel: Kernel,
    /// Tokens in the form that grammars take, with the model's own ends.
    vocabulary: OnceLock<Result<Vocabulary, GrammarError>>,
}

impl Model {
    /// A model that is called `name` in requests and answers.
    pub fn new(
        name: impl Into<String>,
        llama: Llama,
        tokenizer: impl Into<Arc<Tokenizer>>,
        generation: GenerationConfig,
    ) -> Self {
        let (name, tokenizer) = (name.into(), tokenizer.into());
        let subject =
            Subject::new(name.clone(), &llama, llama.sha256(), Arc::clone(&tokenizer), generation.clone());
        let (template, drafting, kernel) = (None, None, Kernel::Auto);
        let (offers, vocabulary) = (Vec::new(), OnceLock::new());
        Self { name, llama, tokenizer, generation, template, drafting, subject, offers, kernel, vocabulary }
    }

    /// Sets the form in which the model expects a chat. Without it, chats are refused.
    pub fn with_template(self, template: impl Into<Option<ChatTemplate>>) -> Self {
        Self { template: template.into(), ..self }
    }

    /// Draws with this instruction set. No token depends on it.
    pub fn with_kernel(self, kernel: Kernel) -> Self {
        Self { kernel, ..self }
    }

    /// Lets a drafter guess ahead. In `exact` mode no text depends on it.
    pub fn with_drafting(self, drafting: Drafting) -> Self {
        Self { drafting: Some(drafting), ..self }
    }

    /// Lets the laboratory show texts with this drafter. `sentence` says what it does.
    pub fn with_offer(
        mut self,
        name: impl Into<String>,
        sentence: impl Into<String>,
        guesser: Guesser,
    ) -> Self {
        let (name, sentence) = (name.into(), sentence.into());
        self.offers.push(Offer { name, sentence, guesser });
        self
    }

    /// What texts depend on beside the request: the version of the streams, the weights, and how guesses are verified
    /// where that is not `exact`.
    pub(crate) fn fingerprint(&self) -> String {
        /// Enough of a hash to tell weights apart.
        const LENGTH: usize = 16;
        let hash: String = self.llama.sha256().chars().take(LENGTH).collect();
        let verify = self.drafting.as_ref().map(|drafting| drafting.speculation.verify);
        match verify.filter(|verify| *verify != Verify::Exact) {
            Some(verify) => format!("stream-{STREAM_VERSION}-{hash}-{verify}"),
            None => format!("stream-{STREAM_VERSION}-{hash}"),
        }
    }

    /// How many tokens a prompt and its text can have.
    pub(crate) fn context(&self) -> usize {
        self.llama.context()
    }

    /// Compiles what a text must match.
    pub(crate) fn compile(&self, text: &ConstraintText) -> Result<Grammar, GrammarError> {
        let ends = &text.eos_token_ids;
        let own = || self.vocabulary.get_or_init(|| self.vocabulary(&self.generation.eos_token_ids)).clone();
        let vocabulary = if *ends == self.generation.eos_token_ids { own()? } else { self.vocabulary(ends)? };
        Grammar::from_text(&vocabulary, text)
    }

    /// The tokens in the form that grammars take, where these end a text.
    fn vocabulary(&self, ends: &[u32]) -> Result<Vocabulary, GrammarError> {
        let (tokenizer, cutter) = (&self.tokenizer, self.tokenizer.clone());
        let count = self.llama.vocabulary() as u32;
        Vocabulary::builder((0..count).map(|token| tokenizer.bytes(token)))
            .eos(ends.iter().copied())
            .cut_by(move |text| cutter.encode_plain(text).ok())
            .build()
    }
}
