//! Llama and its family: llama, mistral, qwen2, qwen3, smollm.
//!
//! Every number of a position comes from dot products and sums whose order only the model and the position decide, so it is the same bits
//! alone or among others, in any cut of the prompt, along a branch of a tree, on any thread count and instruction set.

mod attention;
mod cache;
mod eagle;
mod forward;
mod layer;
mod rope;
mod shortlist;

pub use cache::Memory;
pub use eagle::EagleHead;
pub use shortlist::Shortlist;

use std::path::Path;

use onedraw::Kernel;
use onedraw::float_mode::Standard;

use crate::config::Config;
use crate::error::ModelError;
use crate::folder::read_if_there;
use crate::kernels::dot::Arranged;
use crate::llama::cache::Layout;
use crate::llama::layer::{Layer, norm};
use crate::llama::rope::Turns;
use crate::llama::shortlist::ShortHead;
use crate::matrix::{Matrix, Team};
use crate::model::{Answer, LanguageModel, Run};
use crate::weights::Weights;

/// A model of the Llama family.
pub struct Llama {
    config: Config,
    team: Team,
    turns: Turns,
    embedding: Matrix,
    layers: Vec<Layer>,
    last_norm: Vec<f32>,
    /// `None`: the embedding is the head.
    head: Option<Matrix>,
    /// The head over frequent tokens alone, where they are known.
    short_head: Option<ShortHead>,
}

impl Llama {
    /// Opens a Hugging Face folder, to run on all cores with the best instruction set there is.
    pub fn open(folder: &Path) -> Result<Self, ModelError> {
        let config = Config::read(&folder.join("config.json"))?;
        let model = Self::new(config, &Weights::open(folder)?)?;
        let path = folder.join("shortlist.json");
        match read_if_there(&path)? {
            Some(text) => {
                let list = Shortlist::parse(&path, &text, model.config.vocabulary)?;
                Ok(model.among(Some(list)))
            }
            None => Ok(model),
        }
    }

    /// A model that is part of the program: its config.json and its model.safetensors. Errors call it `name`.
    pub fn embedded(name: &str, config: &str, weights: &'static [u8]) -> Result<Self, ModelError> {
        let folder = Path::new(name);
        let config = Config::parse(&folder.join("config.json"), config)?;
        Self::new(config, &Weights::embedded(&folder.join("model.safetensors"), weights)?)
    }

    fn new(config: Config, weights: &Weights) -> Result<Self, ModelError> {
        let (vocabulary, width) = (config.vocabulary, config.width);
        let layer = |number: usize| Layer::new(&config, weights, &format!("model.layers.{number}"));
        let layers = (0..config.layers).map(layer).collect::<Result<_, _>>()?;
        Ok(Self {
            team: Team::new(Kernel::Auto, 0)?,
            turns: Turns::new(config.rope, config.head_size),
            embedding: weights.matrix("model.embed_tokens.weight", vocabulary, width)?,
            layers,
            last_norm: weights.vector("model.norm.weight", width)?,
            head: match config.is_tied {
                true => None,
                false => Some(weights.matrix("lm_head.weight", vocabulary, width)?),
            },
            short_head: None,
            config,
        })
    }

    /// Runs with this instruction set on so many threads (0: all cores). Neither changes a bit of the logits.
    pub fn on(mut self, kernel: Kernel, threads: usize) -> Result<Self, ModelError> {
        self.team = Team::new(kernel, threads)?;
        Ok(self)
    }

    /// Takes these for the frequent tokens: those that [`Asks::frequent`](crate::Asks::frequent) is answered with. A drafter should take its target's. Tokens that the
    /// model does not have make it none.
    pub fn among(mut self, list: Option<Shortlist>) -> Self {
        let is_of_it = |list: &Shortlist| {
            list.tokens().last().is_some_and(|&last| (last as usize) < self.config.vocabulary)
        };
        let list = list.filter(is_of_it);
        self.short_head =
            list.map(|list| ShortHead::new(list, self.head.as_ref().unwrap_or(&self.embedding)));
        self
    }

    /// The frequent tokens, where they are known.
    pub fn shortlist(&self) -> Option<&Shortlist> {
        self.short_head.as_ref().map(|head| &head.list)
    }

    /// The shape.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The weights that a step reads, in its order, as they lie: a part of a mapped file is fetched when it is read for the first time.
    pub fn weights(&self) -> impl Iterator<Item = &[u8]> {
        let head = self.head.as_ref().unwrap_or(&self.embedding);
        self.layers.iter().flat_map(Layer::matrices).chain([head]).map(Matrix::bytes)
    }

    /// What the last norm makes of states, which are given one after the other.
    pub fn normed(&self, states: &[f32]) -> Vec<f32> {
        let _mode = Standard::enter();
        let mut normed = Vec::new();
        norm(self.team.level, states, &self.last_norm, self.config.epsilon, &mut normed);
        normed
    }

    /// The logits of states, whichever layer they come from: the last norm and the head.
    pub fn logits(&self, states: &[f32]) -> Vec<f32> {
        self.logits_of(states, false)
    }

    /// The same; those of `frequent` tokens only, if these are known.
    fn logits_of(&self, states: &[f32], frequent: bool) -> Vec<f32> {
        let _mode = Standard::enter();
        let normed = Arranged::rows(&self.normed(states), self.config.width);
        if let (true, Some(head)) = (frequent, &self.short_head) {
            return head.times(&self.team, &normed, self.config.vocabulary);
        }
        let mut logits = Vec::new();
        self.head.as_ref().unwrap_or(&self.embedding).times(&self.team, &normed, &mut logits);
        logits
    }
}

impl LanguageModel for Llama {
    type Sequence = Memory;

    fn vocabulary(&self) -> usize {
        self.config.vocabulary
    }

    fn context(&self) -> usize {
        self.config.context
    }

    fn layers(&self) -> usize {
        self.config.layers
    }

    fn start(&self) -> Memory {
        Memory::new(Layout::new(&self.config))
    }

    fn within<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.team.within(work)
    }

    fn forward(&self, runs: &mut [Run<'_, Memory>]) -> Result<Vec<Answer>, ModelError> {
        let _mode = Standard::enter();
        for run in runs.iter() {
            self.check(run)?;
        }
        Ok(self.team.within(|| self.run(runs, None)))
    }
}
