//! A model of the Llama family: its weights, and the two ends of a pass, embeddings and logits.

use std::borrow::Cow;
use std::path::Path;
use std::sync::OnceLock;

use onedraw::Kernel;
use onedraw::float_mode::Standard;

use crate::config::Config;
use crate::error::ModelError;
use crate::folder::read_if_there;
use crate::kernels::dot::Inputs;
use crate::llama::layer::{Layer, norm};
use crate::llama::rope::Rotations;
use crate::llama::shortlist::{ShortHead, Shortlist};
use crate::matrix::Matrix;
use crate::team::Team;
use crate::weights::Weights;

/// A model of the Llama family.
pub struct Llama {
    pub(super) config: Config,
    pub(super) team: Team,
    pub(super) rotations: Rotations,
    pub(super) embedding: Matrix,
    pub(super) layers: Vec<Layer>,
    pub(super) last_norm: Vec<f32>,
    /// `None`: the embedding is the head.
    pub(super) head: Option<Matrix>,
    /// A head over the frequent tokens alone, if these are known.
    pub(super) short_head: Option<ShortHead>,
    /// The tensors by name, of which the others are parts.
    pub(super) tensors: Weights,
    pub(super) sha256: OnceLock<String>,
}

impl Llama {
    /// Opens a Hugging Face folder. The model runs on all cores with the best instruction set of the machine.
    pub fn open(folder: &Path) -> Result<Self, ModelError> {
        let config = Config::read(&folder.join("config.json"))?;
        let model = Self::new(config, Weights::open(folder)?)?;
        let path = folder.join("shortlist.json");
        match read_if_there(&path)? {
            Some(text) => {
                let list = Shortlist::parse(&path, &text, model.config.vocabulary)?;
                Ok(model.among(Some(list)))
            }
            None => Ok(model),
        }
    }

    /// A model without a folder: its config.json and the bytes of its model.safetensors, which are part of the program
    /// or were fetched by it. Errors name it `name`.
    pub fn embedded(
        name: &str,
        config: &str,
        weights: impl Into<Cow<'static, [u8]>>,
    ) -> Result<Self, ModelError> {
        let folder = Path::new(name);
        let config = Config::parse(&folder.join("config.json"), config)?;
        Self::new(config, Weights::held(&folder.join("model.safetensors"), weights.into())?)
    }

    fn new(config: Config, weights: Weights) -> Result<Self, ModelError> {
        let (vocabulary, width) = (config.vocabulary, config.width);
        let layer = |number: usize| Layer::new(&config, &weights, &format!("model.layers.{number}"));
        let layers = (0..config.layers).map(layer).collect::<Result<_, _>>()?;
        Ok(Self {
            team: Team::new(Kernel::Auto, 0)?,
            rotations: Rotations::new(config.rope, config.head_size),
            embedding: weights.matrix("model.embed_tokens.weight", vocabulary, width)?,
            layers,
            last_norm: weights.vector("model.norm.weight", width)?,
            head: match config.is_tied {
                true => None,
                false => Some(weights.matrix("lm_head.weight", vocabulary, width)?),
            },
            short_head: None,
            config,
            tensors: weights,
            sha256: OnceLock::new(),
        })
    }

    /// Runs with this instruction set and this many threads (0: one per core). Neither changes a bit of the
    /// logits. An error if the machine lacks the instruction set.
    pub fn on(mut self, kernel: Kernel, threads: usize) -> Result<Self, ModelError> {
        self.team = Team::new(kernel, threads)?;
        Ok(self)
    }

    /// Sets the frequent tokens, which [`Asks::frequent`](crate::Asks::frequent) is answered with. A drafter
    /// should have those of its target. A list with tokens that the model does not have counts as none.
    pub fn among(mut self, list: Option<Shortlist>) -> Self {
        let fits = |list: &Shortlist| {
            list.tokens().last().is_some_and(|&last| (last as usize) < self.config.vocabulary)
        };
        let list = list.filter(fits);
        self.short_head =
            list.map(|list| ShortHead::new(list, self.head.as_ref().unwrap_or(&self.embedding)));
        self
    }

    /// The frequent tokens, if they are known.
    pub fn shortlist(&self) -> Option<&Shortlist> {
        self.short_head.as_ref().map(|head| &head.list)
    }

    /// The SHA-256 of the weights in hexadecimal: of every tensor, in the order of the names, the name, the type, the
    /// shape and the bytes. It reads all weights, and only the first call does.
    pub fn sha256(&self) -> &str {
        self.sha256.get_or_init(|| self.tensors.sha256())
    }

    /// The shape of the model.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The bytes of the weights, in the order in which a pass reads them. Reading them brings a mapped file
    /// into memory.
    pub fn weights(&self) -> impl Iterator<Item = &[u8]> {
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        self.layers.iter().flat_map(Layer::matrices).chain([head]).map(Matrix::bytes)
    }

    /// Applies the last norm to states, which are given one after the other.
    pub fn normed(&self, states: &[f32]) -> Vec<f32> {
        let _mode = Standard::enter();
        let mut normed = Vec::new();
        norm(self.team.instructions, states, &self.last_norm, self.config.epsilon, &mut normed);
        normed
    }

    /// The logits of states after any layer: the last norm, then the head.
    pub fn logits(&self, states: &[f32]) -> Vec<f32> {
        self.logits_of(states, false)
    }

    /// As [`logits`](Self::logits); with `frequent`, only those of the frequent tokens, if these are known.
    pub(super) fn logits_of(&self, states: &[f32], frequent: bool) -> Vec<f32> {
        let _mode = Standard::enter();
        let normed = Inputs::new(&self.normed(states), self.config.width);
        if let (true, Some(head)) = (frequent, &self.short_head) {
            return head.times(&self.team, &normed, self.config.vocabulary);
        }
        let mut logits = Vec::new();
        self.head.as_ref().unwrap_or(&self.embedding).times(&self.team, &normed, &mut logits);
        logits
    }
}
