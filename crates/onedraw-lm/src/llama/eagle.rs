//! A head that guesses from a model's own states (Li, Wei, Zhang, Zhang: EAGLE, 2024).
//!
//! For a position it gets the model's state after the last norm, and the token that came next. A matrix makes
//! one vector of both, one or more layers attend to the earlier such vectors, and their output stands for the
//! model's state at that next token: the model's own output head turns it into logits. Beyond the text that
//! the model has read, the head takes its own output for the model's state.

use std::borrow::Cow;
use std::path::Path;
use std::sync::OnceLock;

use onedraw::float_mode::Standard;
use serde::Deserialize;

use crate::config::{AttentionBias, Config, Rope, Scaling};
use crate::error::ModelError;
use crate::kernels::dot::Inputs;
use crate::llama::cache::Memory;
use crate::llama::layer::Layer;
use crate::llama::model::Llama;
use crate::llama::rope::Rotations;
use crate::matrix::Matrix;
use crate::model::{Answer, Asks, LanguageModel, Run};
use crate::weights::Weights;

/// One or more layers that continue from the states of a [`Llama`].
pub struct EagleHead {
    /// The layers and their norm, between the embedding and the output head of the model.
    body: Llama,
    /// Maps a state and an embedding to one vector.
    mixing: Matrix,
}

/// config.json
#[derive(Deserialize)]
struct File {
    model_type: String,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: usize,
    max_position_embeddings: usize,
    rms_norm_eps: f32,
    rope_theta: f64,
}

/// Positions for one text: states of the model, or what stands for them, each with the token that came after it.
pub(crate) struct HeadRun<'a> {
    pub memory: &'a mut Memory,
    pub states: &'a [f32],
    pub tokens: &'a [u32],
}

/// What the head says after the last position that it was given.
pub(crate) struct Next {
    /// The logits of the token after that position.
    pub logits: Vec<f32>,
    /// Stands for the model's state at that token.
    pub state: Vec<f32>,
}

impl EagleHead {
    /// Opens the folder of a head that was trained for `model`.
    pub fn open(folder: &Path, model: &Llama) -> Result<Self, ModelError> {
        let path = folder.join("config.json");
        let text = std::fs::read_to_string(&path).map_err(|cause| ModelError::file(&path, cause))?;
        Self::new(&path, &text, Weights::open(folder)?, model)
    }

    /// A head without a folder, whose files the program has. Errors name it `name`.
    pub fn embedded(
        name: &str,
        config: &str,
        weights: impl Into<Cow<'static, [u8]>>,
        model: &Llama,
    ) -> Result<Self, ModelError> {
        let folder = Path::new(name);
        let weights = Weights::held(&folder.join("model.safetensors"), weights.into())?;
        Self::new(&folder.join("config.json"), config, weights, model)
    }

    fn new(path: &Path, config: &str, weights: Weights, model: &Llama) -> Result<Self, ModelError> {
        let file: File = serde_json::from_str(config).map_err(|cause| ModelError::malformed(path, cause))?;
        if file.model_type != "eagle" {
            let message = format!("`model_type` is `{}`; an EAGLE head has `eagle`", file.model_type);
            return Err(ModelError::unsupported(path, message));
        }
        let (width, heads) = (model.config.width, file.num_attention_heads);
        if file.hidden_size != width || heads == 0 || !width.is_multiple_of(2 * heads) {
            let message =
                format!("the head is {} wide with {heads} heads, the model {width} wide", file.hidden_size);
            return Err(ModelError::malformed(path, message));
        }
        if file.num_key_value_heads == 0 || heads % file.num_key_value_heads != 0 {
            let message = format!("{} heads of keys do not divide {heads}", file.num_key_value_heads);
            return Err(ModelError::malformed(path, message));
        }
        let layers = file.num_hidden_layers;
        let config = Config {
            layers,
            heads,
            kv_heads: file.num_key_value_heads,
            head_size: width / heads,
            hidden: file.intermediate_size,
            context: file.max_position_embeddings,
            epsilon: file.rms_norm_eps,
            rope: Rope { theta: file.rope_theta, scaling: Scaling::None },
            attention_bias: AttentionBias::None,
            mlp_bias: false,
            head_norms: false,
            windows: Vec::new(),
            ..model.config.clone()
        };
        // Checked before anything is allocated per layer: a file can claim any number of layers.
        config.check().map_err(|message| ModelError::malformed(path, message))?;
        let config = Config { windows: vec![None; layers], ..config };
        let mixing = weights.matrix("fc.weight", width, 2 * width)?;
        let body = Llama {
            team: model.team.clone(),
            rotations: Rotations::new(config.rope, config.head_size),
            embedding: model.embedding.clone(),
            layers: (0..layers)
                .map(|number| match layers {
                    1 => Layer::new(&config, &weights, "layer"),
                    _ => Layer::new(&config, &weights, &format!("layers.{number}")),
                })
                .collect::<Result<_, _>>()?,
            last_norm: weights.vector("norm.weight", width)?,
            head: model.head.clone(),
            short_head: model.short_head.clone(),
            config,
            tensors: weights,
            sha256: OnceLock::new(),
        };
        Ok(Self { body, mixing })
    }

    /// How many numbers a state has.
    pub(crate) fn width(&self) -> usize {
        self.body.config.width
    }

    /// How many positions a text can have.
    pub(crate) fn context(&self) -> usize {
        self.body.config.context
    }

    pub(crate) fn start(&self) -> Memory {
        self.body.start()
    }

    /// Appends positions to texts, all in one pass.
    pub(crate) fn advance(&self, runs: &mut [HeadRun<'_>]) -> Result<Vec<Next>, ModelError> {
        let _mode = Standard::enter();
        let (body, width) = (&self.body, self.width());
        let last = [body.config.layers];
        let asks = Asks { states: &last, frequent: true, ..Asks::default() };
        let mut pairs = Vec::new();
        let mut lines = Vec::with_capacity(runs.len());
        for HeadRun { memory, states, tokens } in runs {
            let line = Run { asks, ..Run::line(&mut **memory, tokens) };
            body.check(&line)?;
            for (state, &token) in states.chunks_exact(width).zip(line.tokens) {
                pairs.extend_from_slice(state);
                let start = pairs.len();
                pairs.resize(start + width, 0.0);
                body.embedding.row(token as usize, &mut pairs[start..]);
            }
            lines.push(line);
        }
        let answers = body.team.within(|| {
            let mut mixed = Vec::new();
            self.mixing.times(&body.team, &Inputs::new(&pairs, 2 * width), &mut mixed);
            body.run(&mut lines, Some(mixed))
        });
        let next = |mut answer: Answer| {
            let states = answer.states.pop().unwrap_or_default();
            let state = body.normed(&states[states.len().saturating_sub(width)..]);
            Next { logits: answer.logits, state }
        };
        Ok(answers.into_iter().map(next).collect())
    }
}
