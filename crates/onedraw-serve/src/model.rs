//! The model that is served.

use std::sync::Arc;

use onedraw::speculate::Verify;
use onedraw::{Kernel, STREAM_VERSION};
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
            Subject::new(name.clone(), &llama, llama.sha256(), Arc::clone(&tokenizer), generation.clone())
                .offering_own(&llama);
        let (template, drafting, kernel) = (None, None, Kernel::Auto);
        let offers = Vec::new();
        Self { name, llama, tokenizer, generation, template, drafting, subject, offers, kernel }
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
        let name = name.into();
        self.subject = self.subject.offering(name.clone(), sentence);
        self.offers.push(Offer { name, guesser });
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
}
