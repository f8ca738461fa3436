//! The model that questions are about, as far as reading a question needs it: its tokens, its settings and its size.

use std::sync::{Arc, OnceLock};

use onedraw::{ConstraintText, SamplingParams};
use onedraw_grammar::{Grammar, GrammarError, Vocabulary};
use onedraw_lm::settings::{self, Layer, Origin, Settings};
use onedraw_lm::words::to_tokens;
use onedraw_lm::{GenerationConfig, LanguageModel, Tokenizer};
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::own::{COPIES, EXITS, half};

/// Parameters that the laboratory sets by the prompt and the tokens of a question.
const FROM_THE_PROMPT: [&str; 2] = ["prompt_token_ids", "output_token_ids"];

/// What is refused because it is too much. The model's context is a limit for prompts and texts too.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Tokens of a prompt.
    pub prompt: usize,
    /// Tokens of a text.
    pub tokens: usize,
    /// Stop strings, banned strings and words, biases: of each so many.
    pub items: usize,
    /// Bytes of a schema.
    pub schema: usize,
    /// Beams of a search: each takes a position of the pass.
    pub beams: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { prompt: usize::MAX, tokens: usize::MAX, items: 1024, schema: 64 << 10, beams: usize::MAX }
    }
}

/// The tokens of a model in the form that grammars take, as many as it has logits, where these end a text.
pub fn grammar_tokens(
    tokenizer: &Arc<Tokenizer>,
    count: usize,
    ends: &[u32],
) -> Result<Vocabulary, GrammarError> {
    let cutter = Arc::clone(tokenizer);
    Vocabulary::builder((0..count as u32).map(|token| tokenizer.bytes(token)))
        .eos(ends.iter().copied())
        .cut_by(move |text| cutter.encode_plain(text).ok())
        .build()
}

/// A model's name, tokens and settings.
pub struct Subject {
    pub(crate) id: String,
    pub(crate) hash: String,
    pub(crate) context: usize,
    pub(crate) vocabulary: usize,
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) generation: GenerationConfig,
    pub(crate) bounds: Bounds,
    /// The drafters: for each its name, and a sentence about what it does.
    pub(crate) drafters: Vec<(String, String)>,
    /// Tokens in the form that grammars take, with the model's own ends.
    own: OnceLock<Result<Vocabulary, GrammarError>>,
}

impl Subject {
    /// Of a model whose weights have this hash.
    pub fn new(
        id: impl Into<String>,
        model: &impl LanguageModel,
        hash: &str,
        tokenizer: impl Into<Arc<Tokenizer>>,
        generation: GenerationConfig,
    ) -> Self {
        Self {
            id: id.into(),
            hash: hash.to_owned(),
            context: model.context(),
            vocabulary: model.vocabulary(),
            tokenizer: tokenizer.into(),
            generation,
            bounds: Bounds::default(),
            drafters: Vec::new(),
            own: OnceLock::new(),
        }
    }

    /// Sets what is refused because it is too much.
    pub fn bounded(self, bounds: Bounds) -> Self {
        Self { bounds, ..self }
    }

    /// Offers a drafter, which the [laboratory](crate::Lab) has under this name. `sentence` says what it does.
    pub fn offering(mut self, name: impl Into<String>, sentence: impl Into<String>) -> Self {
        self.drafters.push((name.into(), sentence.into()));
        self
    }

    /// Offers the drafters that need no weights of their own.
    pub fn offering_own(self, model: &impl LanguageModel) -> Self {
        let subject = self.offering(COPIES, "Copies what followed the last tokens where they stood before.");
        match half(model) {
            Ok(_) => subject.offering(EXITS, "Guesses with the first half of the model's own layers."),
            Err(_) => subject,
        }
    }

    /// Whether texts can be written with this drafter.
    pub(crate) fn offers(&self, drafter: &str) -> bool {
        self.drafters.iter().any(|(name, _)| name == drafter)
    }

    /// The message for a question that names a drafter which is not there: it lists those that are.
    pub(crate) fn no_drafter(&self, name: &str) -> String {
        let names: Vec<&str> = self.drafters.iter().map(|(name, _)| name.as_str()).collect();
        match names.is_empty() {
            true => format!("there is no drafter `{name}` for this model, and no other"),
            false => format!("there is no drafter `{name}` for this model; there is {}", names.join(", ")),
        }
    }

    /// Compiles what a text must match. The compiler limits its own work, but it may take seconds.
    pub fn compile(&self, text: &ConstraintText) -> Result<Grammar, GrammarError> {
        let ends = &text.eos_token_ids;
        let own = || self.own.get_or_init(|| self.grammar_tokens(&self.generation.eos_token_ids)).clone();
        let tokens = if *ends == self.generation.eos_token_ids { own()? } else { self.grammar_tokens(ends)? };
        Grammar::from_text(&tokens, text)
    }

    fn grammar_tokens(&self, ends: &[u32]) -> Result<Vocabulary, GrammarError> {
        grammar_tokens(&self.tokenizer, self.vocabulary, ends)
    }

    /// The tokens of a prompt.
    pub(crate) fn cut(&self, prompt: &str) -> Result<Vec<u32>, Failure> {
        let wrong =
            |message: String| Failure { field: Some("prompt".to_owned()), ..Failure::new("prompt", message) };
        let tokens = self.tokenizer.encode(prompt).map_err(|error| wrong(error.to_string()))?;
        let most = self.bounds.prompt.min(self.context);
        match tokens.len() {
            0 => Err(wrong("the prompt is empty; write the beginning of a text".to_owned())),
            count if count > most => Err(wrong(format!(
                "the prompt has {count} tokens, and there is room for {most}; make it shorter"
            ))),
            _ => Ok(tokens),
        }
    }

    /// The parameters of one text after a prompt of so many tokens. As in `onedraw generate`, what is given goes before
    /// the model's own settings, and these before the defaults.
    pub(crate) fn params(
        &self,
        given: &Map<String, Value>,
        prompt: usize,
    ) -> Result<SamplingParams, Failure> {
        if let Some(name) = FROM_THE_PROMPT.into_iter().find(|name| given.contains_key(*name)) {
            return Err(Failure::field(
                "parameter",
                name,
                "the tokens of the text come from its prompt here",
            ));
        }
        let own = Layer::read(Origin::Argument, given)?;
        let resolved = Settings::default().layer(own).layer(self.generation.layer()).resolve()?;
        let mut params = resolved.params;
        self.generation.end_texts(&mut params);
        if !given.contains_key("max_tokens") {
            self.generation.limit(&mut params, prompt);
            params.max_tokens = params.max_tokens.min(u32::try_from(self.bounds.tokens).unwrap_or(u32::MAX));
        }
        to_tokens(&mut params, &*self.tokenizer)?;
        self.check(&params)?;
        // What is reported is the laboratory's; no token depends on it.
        let plain = SamplingParams::default();
        (params.logprobs, params.logprobs_mode) = (Some(0), plain.logprobs_mode);
        (params.prompt_logprobs, params.probability, params.kept) = (None, true, plain.kept);
        Ok(params)
    }

    fn check(&self, params: &SamplingParams) -> Result<(), Failure> {
        if params.n != 1 {
            return Err(Failure::field("parameter", "n", "the laboratory writes one text at a time"));
        }
        let Bounds { tokens, items, .. } = self.bounds;
        let lists = settings::items(params).map(|(name, length)| (name, length, items));
        let counts = [("max_tokens", params.max_tokens as usize, tokens)].into_iter().chain(lists);
        if let Some((name, asked, most)) = counts.into_iter().find(|(_, asked, most)| asked > most) {
            return Err(Failure::field(
                "parameter",
                name,
                format!("{asked} are more than the {most} allowed here"),
            ));
        }
        Ok(settings::check(params, self.vocabulary)?)
    }

    /// A token as the page shows it, with its id.
    pub(crate) fn piece(&self, token: u32) -> Map<String, Value> {
        let text = self.tokenizer.piece(token);
        Map::from_iter([("id".to_owned(), token.into()), ("text".to_owned(), text.into())])
    }
}
