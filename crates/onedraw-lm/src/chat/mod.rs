//! Chat templates: messages become text in the form that a model was trained on.
//!
//! A template is a Jinja program in the model's folder. It runs as in Hugging Face's transformers: blocks are
//! trimmed, loops have `break` and `continue`, strings have Python's methods, and there are
//! `raise_exception`, `strftime_now` and a `tojson` ([`json`]) that writes as Python does.
//!
//! A template may come from anybody, so it must neither run for ever nor overflow the stack, which would end the
//! process:
//!
//! - The length of a template and the instructions of a rendering are limited. A template that would not end is an
//!   error.
//! - The engine follows nested expressions and nested values by recursion, also to drop them. A template is compiled
//!   and run on a thread whose stack is large enough for whatever these limits allow to nest ([`with_stack`]).
//! - A value cannot contain itself in a way that recursion would follow ([`namespace`]).
//!
//! Its memory is not limited: a template that doubles a string forty times can use all there is.

mod date;
mod json;
mod namespace;
mod source;

use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, context};
use onedraw::clock;
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

/// How many instructions one rendering may take: enough for thousands of messages, of which well-known templates
/// take some tens each.
const MAX_INSTRUCTIONS: u64 = 250_000;

/// The longest template, in bytes. Well-known ones have some thousands.
const MAX_SOURCE: usize = 256 * 1024;

/// Stack for what does not depend on the template's nesting, among it the macros that may call each other.
const BASE_STACK: usize = 8 * 1024 * 1024;

/// Stack per byte of a template. `a()()()…`, which nests an expression with every second byte, needs 1.1 KiB per byte
/// to compile without optimisation on x86-64, and nothing that was tried needs more.
const STACK_PER_BYTE: usize = 2 * 1024;

/// Stack per instruction. An instruction nests a value once more, and a list needs 0.5 KiB per level to drop and
/// 1.7 KiB to print without optimisation on x86-64; nothing that was tried needs more.
const STACK_PER_INSTRUCTION: usize = 4 * 1024;

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

    /// A template that is part of the program, and the token for the beginning of a text. Errors call the model
    /// `name`.
    pub fn embedded(name: &str, source: &str, bos: &str) -> Result<Self, ModelError> {
        let config = Config { bos_token: Some(Token::Plain(bos.to_owned())), ..Config::default() };
        Self::new(Path::new(name).join("chat_template.jinja"), "", source.to_owned(), config)
    }

    fn new(path: PathBuf, place: &'static str, source: String, config: Config) -> Result<Self, ModelError> {
        let given = [config.bos_token, config.eos_token, config.unk_token, config.pad_token];
        let tokens = TOKENS.into_iter().zip(given).filter_map(|(name, token)| match token? {
            Token::Plain(content) | Token::Added { content } => Some((name, content)),
        });
        let mut template = Self { environment: environment(), path, place, tokens: tokens.collect() };
        if source.len() > MAX_SOURCE {
            let message = format!("{place}a template of {} bytes, more than {MAX_SOURCE}", source.len());
            return Err(ModelError::malformed(&template.path, message));
        }
        let source = source::rewritten(&source);
        let stack = BASE_STACK + STACK_PER_BYTE * source.len();
        let compiled = with_stack(stack, || template.environment.add_template_owned(NAME, source))
            .map_err(|cause| template.no_thread(&cause))?;
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
        let render = || {
            let given = context! {
                messages => Serde(messages),
                add_generation_prompt => add_generation_prompt,
                tools => Value::from(()),
                documents => Value::from(()),
            };
            let tokens =
                Value::from_pairs(self.tokens.iter().map(|(name, content)| (*name, content.as_str())));
            self.environment.get_template(NAME)?.render(context! { ..given, ..tokens })
        };
        // The values of the template are dropped on the thread too; only the text or the error leaves it.
        let stack = BASE_STACK + STACK_PER_INSTRUCTION * MAX_INSTRUCTIONS as usize;
        let rendered: Result<String, Error> =
            with_stack(stack, render).map_err(|cause| self.no_thread(&cause))?;
        rendered.map_err(|error| {
            ModelError::Request(format!("{}: {}", self.path.display(), self.describe(&error)))
        })
    }

    fn no_thread(&self, cause: &io::Error) -> ModelError {
        ModelError::Request(format!("{}: no thread to run the template on: {cause}", self.path.display()))
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
    namespace::add_to(&mut environment);
    environment.add_function("raise_exception", |message: &str| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message.to_owned()))
    });
    environment.add_function("strftime_now", |format: &str| {
        strftime(format, i64::try_from(clock::since_1970().as_secs()).unwrap_or_default())
    });
    environment
}

fn strftime(format: &str, seconds: i64) -> Result<String, Error> {
    date::write(format, seconds).map_err(|message| Error::new(ErrorKind::InvalidOperation, message))
}

/// Runs `work` on a thread with a stack of so many bytes. Only what is used of it takes memory.
fn with_stack<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(bytes).spawn_scoped(scope, work)?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}
