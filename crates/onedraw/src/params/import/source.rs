//! The systems whose settings can be imported, and how they are told apart.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::known::Known;
use super::{hugging_face, llama_cpp, openai, vllm};
use crate::params::error::ParamError;

/// A system whose settings can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// OpenAI's chat completions, its responses, and its older completions.
    OpenAi,
    /// vLLM: its `SamplingParams`, and the requests of its OpenAI-compatible server.
    Vllm,
    /// llama.cpp's server.
    LlamaCpp,
    /// Hugging Face's `generation_config.json`.
    HuggingFace,
}

impl Source {
    /// Every source.
    pub const ALL: [Source; 4] = [Self::OpenAi, Self::Vllm, Self::LlamaCpp, Self::HuggingFace];

    /// The name: `openai`, `vllm`, `llama.cpp` or `huggingface`.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Vllm => "vllm",
            Self::LlamaCpp => "llama.cpp",
            Self::HuggingFace => "huggingface",
        }
    }

    /// The names of all sources, separated by commas.
    pub(super) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Detects the system: the one that has the most of the object's sampling fields for itself, so that one
    /// field that no other system knows is enough to decide. If several have equally many, the number of
    /// sampling fields that they know decides, then that of the other fields. The latter alone never decide,
    /// because requests to every system have a model and a prompt.
    ///
    /// vLLM and llama.cpp accept what OpenAI accepts, so OpenAI wins if the others know no more. Any other
    /// tie gives `None`: for example top-k beside a temperature is known to three systems, and two of them
    /// would add truncations of their own. `None` is also the answer for an object of which nothing would be
    /// carried over.
    pub fn detect(value: &Value) -> Option<Source> {
        let names = || value.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        let known = |source: &Source| {
            let known = source.known();
            let sampling = || names().filter(|name| known.samples(name));
            let is_shared =
                |name: &&str| Self::ALL.iter().any(|other| other != source && other.known().samples(name));
            let own = sampling().filter(|name| !is_shared(name)).count();
            (own, sampling().count(), names().filter(|name| known.passes(name)).count())
        };
        let most = Self::ALL.iter().map(known).max()?;
        let mut best = Self::ALL.into_iter().filter(|source| known(source) == most);
        let source = match (best.next(), best.next()) {
            (Some(source), None) | (Some(source @ Self::OpenAi), _) => Some(source),
            _ => None,
        };
        source.filter(|source| names().any(|name| source.known().carried.contains(&name)))
    }

    /// The fields that this system knows.
    pub(super) fn known(self) -> &'static Known {
        match self {
            Self::OpenAi => &openai::KNOWN,
            Self::Vllm => &vllm::KNOWN,
            Self::LlamaCpp => &llama_cpp::KNOWN,
            Self::HuggingFace => &hugging_face::KNOWN,
        }
    }

    /// The same error with the name that its field has in this system.
    pub(super) fn rename(self, error: &ParamError) -> ParamError {
        let end = error.field().find(['[', '.']).unwrap_or(error.field().len());
        let (ours, place) = error.field().split_at(end);
        let theirs = self.known().renamed.iter().find(|(name, _)| *name == ours);
        ParamError::new(format!("{}{place}", theirs.map_or(ours, |(_, name)| *name)), error.message())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Source {
    type Err = ParamError;

    fn from_str(name: &str) -> Result<Self, ParamError> {
        Self::ALL.into_iter().find(|source| source.name() == name).ok_or_else(|| {
            ParamError::new("source", format!("`{name}` is not known; the sources are {}", Self::names()))
        })
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
