//! Chat templates: messages become text in the form that a model was trained on.
//!
//! A template is a Jinja program in the model's folder. It runs as in Hugging Face's transformers: blocks are
//! trimmed, loops have `break` and `continue`, strings have Python's methods, and there are
//! `raise_exception`, `strftime_now` and a `tojson` ([`json`]) that writes as Python does. The instructions
//! of a rendering are limited, so a template that would not end is an error. Its memory is not limited: a
//! template needs the same trust as the weights.

mod date;
mod json;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, context};
use serde::{Deserialize, Serialize};

use crate::error::ModelError;
use crate::folder::read_if_there;

/// One turn of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: mostly `system`, `user` or `assistant`.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }
}

/// The form in which a model expects a chat.
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// The file, and the field in it if the template is not the whole file; errors name them.
    path: PathBuf,
    place: &'static str,
    /// `bos_token` and the like, by the names that templates use. Those that the model does not have are
    /// undefined.
    tokens: Vec<(&'static str, String)>,
}

const TOKENS: [&str; 4] = ["bos_token", "eos_token", "unk_token", "pad_token"];

/// How many instructions one rendering may take: about a second of work, enough for thousands of messages.
const MAX_INSTRUCTIONS: u64 = 10_000_000;

/// The name of the template in its environment.
const NAME: &str = "chat";

/// tokenizer_config.json, without what is about training or stands in tokenizer.json too.
#[derive(Deserialize, Default)]
struct Config {
    chat_template: Option<Templates>,
    bos_token: Option<Token>,
    eos_token: Option<Token>,
    unk_token: Option<Token>,
    pad_token: Option<Token>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Templates {
    One(String),
    Several(Vec<Named>),
}

#[derive(Deserialize)]
struct Named {
    name: String,
    template: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Token {
    Plain(String),
    Added { content: String },
}

impl ChatTemplate {
    /// The template of a folder: chat_template.jinja, or else the field `chat_template` of
    /// tokenizer_config.json; if that has several, the one named `default`. `None` if the model has no
    /// template.
    pub fn open(folder: &Path) -> Result<Option<Self>, ModelError> {
        let config_path = folder.join("tokenizer_config.json");
        let mut config = match read_if_there(&config_path)? {
            Some(text) => serde_json::from_str::<Config>(&text)
                .map_err(|cause| ModelError::malformed(&config_path, cause))?,
            None => Config::default(),
        };
        let path = folder.join("chat_template.jinja");
        if let Some(source) = read_if_there(&path)? {
            return Self::new(path, "", source, config).map(Some);
        }
        let source = match config.chat_template.take() {
            None => return Ok(None),
            Some(Templates::One(source)) => source,
            Some(Templates::Several(templates)) => {
                let names: Vec<String> = templates.iter().map(|named| format!("`{}`", named.name)).collect();
                let default = templates.into_iter().find(|named| named.name == "default");
                let none = || {
                    let message = format!("`chat_template` has no `default` among {}", names.join(", "));
                    ModelError::malformed(&config_path, message)
                };
                default.ok_or_else(none)?.template
            }
        };
        Self::new(config_path, "`chat_template`, ", source, config).map(Some)
    }

    fn new(path: PathBuf, place: &'static str, source: String, config: Config) -> Result<Self, ModelError> {
        let given = [config.bos_token, config.eos_token, config.unk_token, config.pad_token];
        let tokens = TOKENS.into_iter().zip(given).filter_map(|(name, token)| match token? {
            Token::Plain(content) | Token::Added { content } => Some((name, content)),
        });
        let mut template = Self { environment: environment(), path, place, tokens: tokens.collect() };
        let compiled = template.environment.add_template_owned(NAME, without_generation_marks(&source));
        compiled.map_err(|error| ModelError::malformed(&template.path, template.describe(&error)))?;
        Ok(template)
    }

    /// Sets the time that `strftime_now` writes, in seconds since 1970 began, instead of the system's clock.
    /// A template that writes the date renders another text each day, and other tokens follow it.
    #[must_use]
    pub fn at(mut self, seconds: i64) -> Self {
        self.environment.add_function("strftime_now", move |format: &str| strftime(format, seconds));
        self
    }

    /// Renders a chat. With `add_generation_prompt` the text ends where the answer begins.
    ///
    /// A template may refuse messages, such as two of one role in a row. That is a [`ModelError::Request`].
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String, ModelError> {
        let refused =
            |error: &Error| ModelError::Request(format!("{}: {}", self.path.display(), self.describe(error)));
        let template = self.environment.get_template(NAME).map_err(|error| refused(&error))?;
        let given = context! {
            messages => Serde(messages),
            add_generation_prompt => add_generation_prompt,
            tools => Value::from(()),
            documents => Value::from(()),
        };
        let tokens = Value::from_pairs(self.tokens.iter().map(|(name, content)| (*name, content.as_str())));
        template.render(context! { ..given, ..tokens }).map_err(|error| refused(&error))
    }

    /// An error in one line, with the line number in the template.
    fn describe(&self, error: &Error) -> String {
        let what = match (error.kind(), error.detail()) {
            (ErrorKind::OutOfFuel, _) => format!("takes more than {MAX_INSTRUCTIONS} instructions"),
            (kind, None) => kind.to_string(),
            (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
            (kind, Some(detail)) => format!("{kind}: {detail}"),
        };
        match error.line() {
            Some(line) => format!("{}line {line}: {what}", self.place),
            None => format!("{}{what}", self.place),
        }
    }
}

/// The functions, filters and settings that transformers gives a template.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    // Building the syntax fails only on bad delimiters, and these are the default ones.
    environment.set_syntax(syntax.unwrap_or_default());
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    // Without this an error would contain the template's source.
    environment.set_debug(false);
    environment.set_fuel(Some(MAX_INSTRUCTIONS));
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", json::tojson);
    environment.add_function("raise_exception", |message: &str| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message.to_owned()))
    });
    environment.add_function("strftime_now", |format: &str| {
        // A clock that stands before 1970 was never set.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        strftime(format, i64::try_from(now.as_secs()).unwrap_or_default())
    });
    environment
}

fn strftime(format: &str, seconds: i64) -> Result<String, Error> {
    date::write(format, seconds).map_err(|message| Error::new(ErrorKind::InvalidOperation, message))
}

/// Some templates mark the model's own words by `{% generation %}` and `{% endgeneration %}`, for training.
/// What is between is rendered as usual: the marks are replaced by an `if true`, which treats white space as
/// they do.
fn without_generation_marks(source: &str) -> String {
    let mut parts = source.split("{%");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("{%");
        let word = part.find("%}").and_then(|end| part.get(..end)).unwrap_or_default();
        let instead = match word.trim_matches(['-', '+', ' ', '\t', '\n']) {
            name @ "generation" => part.replacen(name, "if true", 1),
            name @ "endgeneration" => part.replacen(name, "endif", 1),
            _ => part.to_owned(),
        };
        text.push_str(&instead);
    }
    text
}
