//! Text to tokens and back: tokenizer.json of a Hugging Face folder.
//!
//! Text becomes tokens by the `tokenizers` library. The way back is a table with the bytes of every token
//! ([`spelling`]), because generated text comes token by token: a token may end within a character, and what
//! it adds to the text must not depend on the tokens beside it.

mod spelling;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use tokenizers::ModelWrapper;

use crate::error::ModelError;
use crate::hash;
use crate::model::Vocabulary;
use spelling::Spelling;

/// The tokens of a model: how text is divided into them, and the bytes of each.
///
/// The same text always gives the same tokens: a `dropout` in the file, which would divide at random, is
/// switched off. So are `truncation` and `padding`, which are for batches in training.
pub struct Tokenizer {
    path: PathBuf,
    inner: tokenizers::Tokenizer,
    /// The bytes of all tokens, one after the other.
    bytes: Vec<u8>,
    /// Where the bytes of each token end.
    ends: Vec<usize>,
    /// Special tokens, and their content.
    specials: BTreeMap<u32, String>,
    /// The SHA-256 of tokenizer.json.
    sha256: String,
}

/// The parts of tokenizer.json that are read here, before the library reads it.
#[derive(Deserialize)]
struct File {
    model: Model,
    decoder: Option<Value>,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// The supported kinds of models, as `model.type` names them.
const MODELS: [&str; 4] = ["BPE", "Unigram", "WordLevel", "WordPiece"];

/// onedraw draws from up to this many tokens. Higher ids would make the table of bytes arbitrarily large.
const MAX_TOKENS: u32 = 1 << 20;

impl Tokenizer {
    /// Reads tokenizer.json of a folder.
    pub fn open(folder: &Path) -> Result<Self, ModelError> {
        let (path, json) = read(folder)?;
        Self::parse(path, &json)
    }

    /// A tokenizer that is part of the program: its tokenizer.json. Errors name it `name`.
    pub fn embedded(name: &str, json: &[u8]) -> Result<Self, ModelError> {
        Self::parse(Path::new(name).join("tokenizer.json"), json)
    }

    /// The SHA-256 of tokenizer.json in hexadecimal, as `sha256sum` prints it.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    fn parse(path: PathBuf, json: &[u8]) -> Result<Self, ModelError> {
        let sha256 = hash::sha256(json);
        let unsupported = |what: String| ModelError::Unsupported(format!("{}: {what}", path.display()));
        let json = str::from_utf8(json).map_err(|cause| ModelError::malformed(&path, cause))?;
        let file: File = serde_json::from_str(json).map_err(|cause| ModelError::malformed(&path, cause))?;
        if let Some(kind) = file.model.kind.filter(|kind| !MODELS.contains(&kind.as_str())) {
            let known = MODELS.join(", ");
            return Err(unsupported(format!("`model.type` is `{kind}`; those that can be read are {known}")));
        }
        let decoder =
            file.decoder.ok_or_else(|| unsupported("`decoder` is absent: tokens have no text".into()))?;
        let spelling = Spelling::read(decoder).map_err(|what| unsupported(format!("`decoder`: {what}")))?;
        // `from_bytes` is generic, and would compile the whole reader of tokenizer.json again here.
        let mut inner = guarded(|| json.parse::<tokenizers::Tokenizer>())
            .map_err(|cause| ModelError::malformed(&path, cause))?;
        make_deterministic(&mut inner).map_err(|cause| ModelError::malformed(&path, cause))?;
        let count = count(&inner).map_err(|message| ModelError::malformed(&path, message))?;
        let mut tokenizer =
            Self { path, inner, bytes: Vec::new(), ends: Vec::new(), specials: BTreeMap::new(), sha256 };
        tokenizer.spell(count, &spelling);
        // Only a run shows whether something is missing that the post-processor needs.
        guarded(|| tokenizer.inner.encode_fast("", true))
            .map_err(|cause| ModelError::malformed(&tokenizer.path, cause))?;
        Ok(tokenizer)
    }

    /// Makes the table of bytes.
    fn spell(&mut self, count: u32, spelling: &Spelling) {
        let added = self.inner.get_added_tokens_decoder();
        self.ends.reserve_exact(count as usize);
        for id in 0..count {
            match added.get(&id) {
                Some(token) if token.special => _ = self.specials.insert(id, token.content.clone()),
                Some(token) => self.bytes.extend(spelling.added(&token.content)),
                None => self
                    .bytes
                    .extend(self.inner.id_to_token(id).iter().flat_map(|piece| spelling.bytes(piece))),
            }
            self.ends.push(self.bytes.len());
        }
    }

    /// The tokens of a text, with those that the model expects around it, such as a token for the beginning.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        self.tokens(text, true)
    }

    /// The tokens of a text and no others. Special tokens that are written out in it are recognised. This is
    /// for the text of a chat template, which includes the token for the beginning.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        self.tokens(text, false)
    }

    fn tokens(&self, text: &str, with_special: bool) -> Result<Vec<u32>, ModelError> {
        // `encode_fast` leaves out the offsets, which take as long as the rest.
        let encoding = guarded(|| self.inner.encode_fast(text, with_special));
        let encoding = encoding.map_err(|cause| {
            ModelError::Request(format!(
                "{}: the text cannot be cut into tokens: {cause}",
                self.path.display()
            ))
        })?;
        Ok(encoding.get_ids().to_vec())
    }

    /// The bytes that a token stands for in running text. They include a space that the decoder of the file
    /// would drop at the start of a text. Empty for special tokens, which are not text, and for ids without a
    /// token.
    pub fn bytes(&self, token: u32) -> &[u8] {
        let token = token as usize;
        let start = token.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let range = start.zip(self.ends.get(token).copied());
        range.and_then(|(start, end)| self.bytes.get(start..end)).unwrap_or_default()
    }

    /// Whether a token is special: a mark and not text.
    pub fn is_special(&self, token: u32) -> bool {
        self.specials.contains_key(&token)
    }

    /// The token with this content, as tokenizer.json writes it.
    pub fn id(&self, content: &str) -> Option<u32> {
        self.inner.token_to_id(content)
    }

    /// The highest id plus one.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The text of tokens: their bytes, joined. Bytes that are not UTF-8 become U+FFFD.
    pub fn text(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().flat_map(|&token| self.bytes(token)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// An error if another tokenizer has another text for an id. It names the first such id.
    pub fn check_same(&self, other: &Self) -> Result<(), ModelError> {
        let differs = |&token: &u32| self.piece(token) != other.piece(token);
        match (0..self.len().max(other.len()) as u32).find(differs) {
            Some(token) => Err(ModelError::Request(format!(
                "the tokenizers differ: token {token} is {:?} to one and {:?} to the other",
                self.piece(token),
                other.piece(token)
            ))),
            None => Ok(()),
        }
    }

    /// An error if the tokenizer.json of a folder has another text for an id. The same file is not parsed again, which
    /// takes many times as long as its hash.
    pub(crate) fn check_same_in(&self, folder: &Path) -> Result<(), ModelError> {
        let (path, json) = read(folder)?;
        match hash::sha256(&json) == self.sha256 {
            true => Ok(()),
            false => self.check_same(&Self::parse(path, &json)?),
        }
    }

    /// A token for display: its text, or its content if it is special.
    pub fn piece(&self, token: u32) -> String {
        self.specials.get(&token).cloned().unwrap_or_else(|| self.text(&[token]))
    }
}

/// The tokenizer.json of a folder, and its path.
fn read(folder: &Path) -> Result<(PathBuf, Vec<u8>), ModelError> {
    let path = folder.join("tokenizer.json");
    let json = std::fs::read(&path).map_err(|cause| ModelError::file(&path, cause))?;
    Ok((path, json))
}

impl Vocabulary for Tokenizer {
    fn bytes(&self, token: u32) -> &[u8] {
        Tokenizer::bytes(self, token)
    }

    fn cut(&self, text: &str) -> Option<Vec<u32>> {
        self.encode_plain(text).ok()
    }

    fn special(&self, name: &str) -> Option<u32> {
        self.id(name).filter(|&token| self.is_special(token))
    }
}

/// Switches off everything that makes tokens depend on more than the text.
fn make_deterministic(inner: &mut tokenizers::Tokenizer) -> tokenizers::Result<()> {
    inner.with_padding(None);
    inner.with_truncation(None)?;
    if let ModelWrapper::BPE(model) = inner.get_model()
        && model.dropout.is_some()
    {
        let mut model = model.clone();
        model.dropout = None;
        inner.with_model(model);
    }
    Ok(())
}

/// The highest id plus one. An error if two tokens share an id.
fn count(inner: &tokenizers::Tokenizer) -> Result<u32, String> {
    let mut ids: Vec<u32> = inner.get_vocab(false).into_values().collect();
    ids.sort_unstable();
    // Which of the two the library shows changes from run to run.
    if let Some([id, _]) = ids.array_windows().find(|[one, next]| one == next) {
        return Err(format!("two tokens of `model.vocab` have the id {id}"));
    }
    let highest = inner.get_vocab(true).into_values().max();
    match highest {
        Some(id) if id >= MAX_TOKENS => {
            Err(format!("a token has the id {id}; ids must be below {MAX_TOKENS}"))
        }
        highest => Ok(highest.map_or(0, |id| id + 1)),
    }
}

/// Runs the library, and turns a panic into an error: some files are JSON but make no sense.
fn guarded<T>(run: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(|cause| cause.to_string()),
        Err(_) => Err("the parts of the file do not fit together".to_owned()),
    }
}
