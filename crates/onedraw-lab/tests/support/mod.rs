//! The embedded model, its laboratory, and a model that counts its passes.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use onedraw_lab::{Bounds, Lab, Subject};
use onedraw_lm::speculate::{Companion, Ngram};
use onedraw_lm::{Answer, LanguageModel, Llama, ModelError, Run, Tokenizer, stories};
use serde_json::Value;

/// The story model, which counts its passes.
pub struct Counting {
    llama: Llama,
    passes: AtomicUsize,
}

impl Counting {
    pub fn new() -> Self {
        Self { llama: stories::model().expect("a model"), passes: AtomicUsize::new(0) }
    }

    pub fn passes(&self) -> usize {
        self.passes.load(Ordering::Relaxed)
    }

    pub fn subject(&self) -> Subject {
        self.named("stories")
    }

    /// As if the model had another name.
    pub fn named(&self, name: &str) -> Subject {
        let settings = stories::generation_config().expect("settings");
        let tokenizer = stories::tokenizer().expect("a tokenizer");
        Subject::new(name, self, self.llama.sha256(), tokenizer, settings)
            .bounded(Bounds::default())
            .offering("ngram", "Copies.")
            .offering("draft", "Guesses.")
    }
}

impl LanguageModel for Counting {
    type Sequence = <Llama as LanguageModel>::Sequence;

    fn vocabulary(&self) -> usize {
        self.llama.vocabulary()
    }

    fn context(&self) -> usize {
        self.llama.context()
    }

    fn start(&self) -> Self::Sequence {
        self.llama.start()
    }

    fn forward(&self, runs: &mut [Run<'_, Self::Sequence>]) -> Result<Vec<Answer>, ModelError> {
        self.passes.fetch_add(1, Ordering::Relaxed);
        self.llama.forward(runs)
    }
}

pub static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| stories::tokenizer().expect("a tokenizer"));
pub static DRAFTER: LazyLock<Llama> = LazyLock::new(|| stories::drafter().expect("a drafter"));

/// A laboratory with two drafters.
pub fn lab<'a>(model: &'a Counting, subject: &'a Subject) -> Lab<'a, Counting> {
    let companion = Companion::new(&*DRAFTER, model).expect("a drafter");
    let mut lab = Lab::new(model, subject);
    lab.add_drafter("ngram", Ngram::new(3).expect("a drafter"));
    lab.add_drafter("draft", companion);
    lab
}

/// The lines of an answer to a question.
pub fn ask(lab: &mut Lab<'_, Counting>, name: &str, question: &Value) -> Vec<Value> {
    lab.ask(name, question.to_string().as_bytes())
}

/// The only line of an answer.
pub fn one(lab: &mut Lab<'_, Counting>, name: &str, question: &Value) -> Value {
    let mut lines = ask(lab, name, question);
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

/// The tokens that a text has in the end, and the text.
pub fn text(lines: &[Value]) -> (Vec<u32>, String) {
    let mut tokens = Vec::new();
    for line in lines {
        match line["kind"].as_str() {
            Some("token") => {
                assert_eq!(line["position"], tokens.len(), "{line}");
                tokens.push(line["id"].as_u64().expect("an id") as u32);
            }
            Some("back") => tokens.truncate(line["to"].as_u64().expect("a length") as usize),
            Some("error") => panic!("{line}"),
            _ => {}
        }
    }
    let last = lines.last().expect("lines");
    assert_eq!(last["kind"], "end", "{last}");
    (tokens, last["text"].as_str().expect("a text").to_owned())
}
