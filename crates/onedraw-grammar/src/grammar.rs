//! A grammar, compiled for a vocabulary.

use std::fmt::Write;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::derivre::RegexBuilder;
use llguidance::{panic_utils, regex_to_lark};
use onedraw::{ConstraintKind, ConstraintText};
use serde_json::{Value, json};

use crate::compiled::Compiled;
use crate::error::GrammarError;
use crate::matcher::Matcher;
use crate::vocabulary::Vocabulary;

/// The largest schema or Lark grammar, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// The stack for compiling a grammar without references.
const STACK: usize = 4 << 20;

/// What each byte of a grammar can add to the stack. The densest chains, of arrays in arrays and references
/// between them, were measured at 600 bytes.
const STACK_PER_BYTE: usize = 1 << 10;

/// What a text must keep to, compiled for a [`Vocabulary`]. A clone shares the compiled grammar.
#[derive(Clone)]
pub struct Grammar(Arc<Compiled>);

impl Grammar {
    /// JSON that a schema allows. Properties come in the order of the schema. White space may stand wherever
    /// JSON allows it.
    ///
    /// ```
    /// # use onedraw_grammar::{Grammar, GrammarError, Vocabulary};
    /// # let vocabulary = Vocabulary::builder(["", "{", "}", "\"a\"", ":", "1"]).eos([0]).build()?;
    /// let schema = r#"{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}"#;
    /// let grammar = Grammar::json_schema(&vocabulary, schema)?;
    /// let error = Grammar::json_schema(&vocabulary, r#"{"type": "integer", "minimum": 5, "maximum": 3}"#);
    /// assert!(matches!(error, Err(GrammarError::Unsatisfiable(_))));
    /// # Ok::<(), GrammarError>(())
    /// ```
    pub fn json_schema(vocabulary: &Vocabulary, schema: &str) -> Result<Self, GrammarError> {
        let source = text_of(vocabulary, ConstraintKind::JsonSchema, schema);
        Self::compile(vocabulary, source, TopLevelGrammar::from_json_schema(parse(schema)?), schema.len())
    }

    /// As [`Grammar::json_schema`], without white space between the parts. Such a text is shorter, but a
    /// model that learned from JSON with spaces may do worse.
    pub fn compact_json_schema(vocabulary: &Vocabulary, schema: &str) -> Result<Self, GrammarError> {
        let depth = schema.len();
        let source = text_of(vocabulary, ConstraintKind::CompactJsonSchema, schema);
        let mut schema = parse(schema)?;
        if schema == Value::Bool(true) {
            schema = json!({});
        }
        if let Value::Object(keys) = &mut schema {
            let options = keys.entry("x-guidance").or_insert_with(|| json!({}));
            if let Value::Object(options) = options {
                options.insert("whitespace_flexible".into(), Value::Bool(false));
            }
        }
        Self::compile(vocabulary, source, TopLevelGrammar::from_json_schema(schema), depth)
    }

    /// Text that a regular expression matches from its first character to its last. The syntax is that of
    /// Rust's `regex`.
    pub fn regex(vocabulary: &Vocabulary, expression: &str) -> Result<Self, GrammarError> {
        // Compiled by itself first, because errors of the Lark compiler are about the Lark text.
        panic_utils::catch_unwind(AssertUnwindSafe(|| RegexBuilder::new().mk_regex(expression)))
            .map_err(|cause| GrammarError::regex(&format!("{cause:#}")))?;
        if expression.is_empty() {
            // `//` begins a comment in Lark.
            return Self::choices(vocabulary, &[""]);
        }
        let lark = format!("start: REGEX\nREGEX: /{}/\n", regex_to_lark(expression, ""));
        let source = text_of(vocabulary, ConstraintKind::Regex, expression);
        Self::compile(vocabulary, source, TopLevelGrammar::from_lark(lark), 0)
    }

    /// One of these texts.
    pub fn choices(vocabulary: &Vocabulary, choices: &[impl AsRef<str>]) -> Result<Self, GrammarError> {
        if choices.is_empty() {
            return Err(GrammarError::Unsatisfiable("there are no choices".into()));
        }
        // A single terminal, so that one choice may begin with another.
        let quoted: Vec<String> = choices.iter().map(|choice| quote(choice.as_ref())).collect();
        let lark = format!("start: CHOICE\nCHOICE: {}\n", quoted.join(" | "));
        let choices: Vec<&str> = choices.iter().map(AsRef::as_ref).collect();
        let source = text_of(vocabulary, ConstraintKind::Choices, &json!(choices).to_string());
        Self::compile(vocabulary, source, TopLevelGrammar::from_lark(lark), 0)
    }

    /// Text of a context-free grammar in llguidance's dialect of Lark. The rule `start` is the whole text.
    pub fn lark(vocabulary: &Vocabulary, grammar: &str) -> Result<Self, GrammarError> {
        let source = text_of(vocabulary, ConstraintKind::Grammar, grammar);
        Self::compile(vocabulary, source, TopLevelGrammar::from_lark(grammar.to_owned()), grammar.len())
    }

    /// A grammar in llguidance's own format: JSON with a list `grammars` of schemas and Lark grammars that
    /// refer to each other, or Lark, which may begin with `%llguidance` and options.
    pub fn llguidance(vocabulary: &Vocabulary, grammar: &str) -> Result<Self, GrammarError> {
        if !grammar.trim_start().starts_with('{') {
            return Self::lark(vocabulary, grammar);
        }
        let grammars = serde_json::from_str(grammar).map_err(|cause| GrammarError::json(grammar, &cause))?;
        Self::compile(
            vocabulary,
            text_of(vocabulary, ConstraintKind::Grammar, grammar),
            grammars,
            grammar.len(),
        )
    }

    /// The grammar of a text that a matcher has told ([`Constraint::source`](onedraw::Constraint::source)), for a
    /// vocabulary that ends texts with the same tokens.
    pub fn from_text(vocabulary: &Vocabulary, source: &ConstraintText) -> Result<Self, GrammarError> {
        let text = &source.text;
        match source.kind {
            ConstraintKind::JsonSchema => Self::json_schema(vocabulary, text),
            ConstraintKind::CompactJsonSchema => Self::compact_json_schema(vocabulary, text),
            ConstraintKind::Regex => Self::regex(vocabulary, text),
            ConstraintKind::Choices => {
                let choices: Vec<String> =
                    serde_json::from_str(text).map_err(|cause| GrammarError::json(text, &cause))?;
                Self::choices(vocabulary, &choices)
            }
            ConstraintKind::Grammar => Self::llguidance(vocabulary, text),
        }
    }

    /// `depth` is the length of a grammar that can refer to itself, otherwise 0: the compiler follows a chain
    /// of references by recursion.
    fn compile(
        vocabulary: &Vocabulary,
        source: ConstraintText,
        grammar: TopLevelGrammar,
        depth: usize,
    ) -> Result<Self, GrammarError> {
        if depth > MAX_BYTES {
            return Err(GrammarError::malformed(format!(
                "{depth} bytes of grammar are more than {MAX_BYTES}"
            )));
        }
        let begin = || -> Result<llguidance::Matcher, GrammarError> {
            let parser = vocabulary.factory().create_parser(grammar);
            let parser = parser.map_err(|cause| GrammarError::compiler(&format!("{cause:#}")))?;
            let mut start = llguidance::Matcher::new(Ok(parser));
            // The first mask shows whether there is a text at all. Every copy of the state keeps it.
            start.compute_mask().map_err(|cause| match cause.to_string() {
                nothing if nothing.starts_with("NoExtension") => {
                    GrammarError::Unsatisfiable("no text in these tokens keeps to the grammar".into())
                }
                message => GrammarError::compiler(&message),
            })?;
            Ok(start)
        };
        let start = on_stack(STACK + depth * STACK_PER_BYTE, begin)?;
        let grammar = Self(Arc::new(Compiled::new(vocabulary.clone(), source, start)));
        // A text that only special tokens can begin cannot be written.
        match grammar.start().compute() {
            Ok(_) => Ok(grammar),
            Err(cause) => Err(GrammarError::Unsatisfiable(cause.to_string())),
        }
    }

    /// The vocabulary that it was compiled for.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.0.vocabulary
    }

    /// A matcher for a new text.
    pub fn start(&self) -> Matcher {
        Matcher::new(self.0.clone())
    }
}

/// Runs the compiler on a thread with a stack that is always large enough, because a stack overflow would end the
/// process. Only the part of it that is used takes memory.
#[cfg(not(target_arch = "wasm32"))]
fn on_stack<T: Send>(
    bytes: usize,
    compile: impl FnOnce() -> Result<T, GrammarError> + Send,
) -> Result<T, GrammarError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(bytes).spawn_scoped(scope, compile);
        let thread =
            thread.map_err(|cause| GrammarError::malformed(format!("no thread to compile on: {cause}")))?;
        thread.join().unwrap_or_else(|_| Err(GrammarError::malformed("the compiler failed")))
    })
}

/// WebAssembly has no threads, and one stack, whose size is chosen when it is linked: `lab/` asks for 24 MiB. A grammar
/// that could need more is refused.
#[cfg(target_arch = "wasm32")]
fn on_stack<T>(bytes: usize, compile: impl FnOnce() -> Result<T, GrammarError>) -> Result<T, GrammarError> {
    /// What a grammar of 16 KiB may need.
    const MOST: usize = STACK + (16 << 10) * STACK_PER_BYTE;
    if bytes > MOST {
        return Err(GrammarError::malformed("it is too long for a browser; the program takes longer ones"));
    }
    compile()
}

fn text_of(vocabulary: &Vocabulary, kind: ConstraintKind, text: &str) -> ConstraintText {
    ConstraintText { kind, text: text.to_owned(), eos_token_ids: vocabulary.eos().to_vec() }
}

fn parse(schema: &str) -> Result<Value, GrammarError> {
    serde_json::from_str(schema).map_err(|cause| GrammarError::json(schema, &cause))
}

/// A quoted text for Lark, which understands JSON's escapes.
fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        if c.is_ascii() && !c.is_ascii_alphanumeric() && c != ' ' {
            _ = write!(quoted, "\\u{:04x}", c as u32);
        } else {
            quoted.push(c);
        }
    }
    quoted + "\""
}
