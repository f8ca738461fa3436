//! config.json of a Hugging Face folder, for the supported architectures.

use std::path::Path;

use serde::Deserialize;

use crate::error::ModelError;

/// The shape of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How many tokens the vocabulary has.
    pub vocabulary: usize,
    /// How many numbers a state has.
    pub width: usize,
    /// How many layers there are.
    pub layers: usize,
    /// How many heads of queries there are.
    pub heads: usize,
    /// How many heads of keys and values there are.
    pub kv_heads: usize,
    /// How many numbers a head has.
    pub head_size: usize,
    /// How many numbers the inner part of the feed-forward part has.
    pub hidden: usize,
    /// How many positions a sequence can have.
    pub context: usize,
    /// Added to a mean square before its root is taken.
    pub epsilon: f32,
    /// How positions rotate queries and keys.
    pub rope: Rope,
    /// Whether the embedding is also the output head.
    pub is_tied: bool,
    /// Which products of the attention have biases.
    pub attention_bias: AttentionBias,
    /// Whether the feed-forward parts have biases.
    pub mlp_bias: bool,
    /// Whether each head of queries and keys is normed (qwen3).
    pub head_norms: bool,
    /// For each layer, how many positions a position attends to, including itself; `None`: all before it.
    pub windows: Vec<Option<usize>>,
}

/// Which products of an attention have biases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionBias {
    /// None.
    None,
    /// Those of queries, keys and values (qwen2).
    Inputs,
    /// These and the output's (llama and qwen3 with `attention_bias`).
    All,
}

/// Rotary positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// The base of the wave lengths.
    pub theta: f64,
    /// How wave lengths are stretched, for texts longer than those of the training.
    pub scaling: Scaling,
}

/// A stretching of wave lengths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scaling {
    /// None.
    None,
    /// All by the same factor.
    Linear(f64),
    /// Llama 3's: long waves by a factor, short ones not at all, those between by a part of it.
    Llama3 {
        /// The factor of long waves.
        factor: f64,
        /// Waves longer than the trained context divided by this are long.
        low: f64,
        /// Waves shorter than the trained context divided by this are short.
        high: f64,
        /// The trained context.
        original: f64,
    },
}

#[derive(Deserialize)]
struct File {
    model_type: String,
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    intermediate_size: usize,
    max_position_embeddings: usize,
    rms_norm_eps: f64,
    #[serde(default = "silu")]
    hidden_act: String,
    #[serde(default)]
    tie_word_embeddings: bool,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    rope_theta: Option<f64>,
    rope_scaling: Option<RopeFile>,
    rope_parameters: Option<RopeFile>,
    #[serde(default = "window")]
    sliding_window: Option<usize>,
    #[serde(default)]
    use_sliding_window: bool,
    max_window_layers: Option<usize>,
    layer_types: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct RopeFile {
    rope_theta: Option<f64>,
    rope_type: Option<String>,
    /// The older name of `rope_type`. Some files have both.
    #[serde(rename = "type")]
    old_type: Option<String>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
}

fn silu() -> String {
    "silu".to_owned()
}

/// The window of layers that have one, if the file does not say.
fn window() -> Option<usize> {
    Some(4096)
}

/// The supported architectures, as `model_type` names them.
pub const ARCHITECTURES: [&str; 4] = ["llama", "mistral", "qwen2", "qwen3"];

impl Config {
    /// Reads config.json.
    pub(crate) fn read(path: &Path) -> Result<Self, ModelError> {
        let text = std::fs::read_to_string(path).map_err(|cause| ModelError::file(path, cause))?;
        Self::parse(path, &text)
    }

    /// Parses the text of config.json. Errors name `path`.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, ModelError> {
        let malformed = |message: String| ModelError::malformed(path, message);
        let kind: serde_json::Value =
            serde_json::from_str(text).map_err(|cause| malformed(cause.to_string()))?;
        let name = kind.get("model_type").and_then(|name| name.as_str()).unwrap_or("");
        if !ARCHITECTURES.contains(&name) {
            let known = ARCHITECTURES.join(", ");
            let message = format!("`model_type` is `{name}`; those that can be run are {known}");
            return Err(ModelError::unsupported(path, message));
        }
        let file: File = serde_json::from_str(text).map_err(|cause| malformed(cause.to_string()))?;
        file.config(path)
    }
}

impl File {
    fn config(self, path: &Path) -> Result<Config, ModelError> {
        if !matches!(self.hidden_act.as_str(), "silu" | "swish") {
            let message = format!("`hidden_act` is `{}`; silu can be run", self.hidden_act);
            return Err(ModelError::unsupported(path, message));
        }
        let heads = self.num_attention_heads;
        let config = Config {
            vocabulary: self.vocab_size,
            width: self.hidden_size,
            layers: self.num_hidden_layers,
            heads,
            kv_heads: self.num_key_value_heads.unwrap_or(heads),
            head_size: self.head_dim.unwrap_or(match self.model_type.as_str() {
                "qwen3" => 128,
                _ => self.hidden_size / heads.max(1),
            }),
            hidden: self.intermediate_size,
            context: self.max_position_embeddings,
            epsilon: self.rms_norm_eps as f32,
            rope: self.rope(path)?,
            is_tied: self.tie_word_embeddings,
            attention_bias: match (self.model_type.as_str(), self.attention_bias) {
                ("qwen2", _) => AttentionBias::Inputs,
                ("llama" | "qwen3", true) => AttentionBias::All,
                _ => AttentionBias::None,
            },
            mlp_bias: self.mlp_bias && self.model_type == "llama",
            head_norms: self.model_type == "qwen3",
            windows: Vec::new(),
        };
        // Checked before anything is allocated per layer: a file can claim any number of layers.
        config.check().map_err(|message| ModelError::malformed(path, message))?;
        Ok(Config { windows: self.windows(path)?, ..config })
    }

    fn rope(&self, path: &Path) -> Result<Rope, ModelError> {
        let given = self.rope_scaling.as_ref().or(self.rope_parameters.as_ref());
        let theta = given.and_then(|given| given.rope_theta).or(self.rope_theta).unwrap_or(10_000.0);
        let Some(given) = given else { return Ok(Rope { theta, scaling: Scaling::None }) };
        let field = |name: &str, value: Option<f64>| match value {
            Some(value) if value > 0.0 && value.is_finite() => Ok(value),
            Some(value) => {
                Err(ModelError::malformed(path, format!("`{name}` of the rotary scaling is {value}")))
            }
            None => Err(ModelError::malformed(path, format!("the rotary scaling has no `{name}`"))),
        };
        let scaling = match given.rope_type.as_deref().or(given.old_type.as_deref()) {
            None | Some("default") => Scaling::None,
            Some("linear") => Scaling::Linear(field("factor", given.factor)?),
            Some("llama3") => Scaling::Llama3 {
                factor: field("factor", given.factor)?,
                low: field("low_freq_factor", given.low_freq_factor)?,
                high: field("high_freq_factor", given.high_freq_factor)?,
                original: field("original_max_position_embeddings", given.original_max_position_embeddings)?,
            },
            Some(other) => {
                let message =
                    format!("the rotary scaling is `{other}`; default, linear and llama3 can be run");
                return Err(ModelError::unsupported(path, message));
            }
        };
        Ok(Rope { theta, scaling })
    }

    fn windows(&self, path: &Path) -> Result<Vec<Option<usize>>, ModelError> {
        let count = self.num_hidden_layers;
        let slides: Vec<bool> = match (self.model_type.as_str(), &self.layer_types) {
            ("qwen2" | "qwen3", Some(types)) => {
                if types.len() != count {
                    let message = format!("`layer_types` names {} layers of {count}", types.len());
                    return Err(ModelError::malformed(path, message));
                }
                let known = ["full_attention", "sliding_attention"];
                if let Some(other) = types.iter().find(|name| !known.contains(&name.as_str())) {
                    let message = format!("a layer is `{other}`; {} can be run", known.join(" and "));
                    return Err(ModelError::unsupported(path, message));
                }
                types.iter().map(|name| name == "sliding_attention").collect()
            }
            ("qwen2" | "qwen3", None) => {
                let first = self.max_window_layers.unwrap_or(28);
                (0..count).map(|layer| self.use_sliding_window && layer >= first).collect()
            }
            // llama and mistral ignore `layer_types`.
            (kind, _) => vec![kind == "mistral"; count],
        };
        let windows: Vec<_> =
            slides.into_iter().map(|slides| self.sliding_window.filter(|_| slides)).collect();
        match windows.contains(&Some(0)) {
            true => Err(ModelError::malformed(path, "`sliding_window` is 0")),
            false => Ok(windows),
        }
    }
}

impl Config {
    /// Whether a model can have this shape; the error names a field of the file.
    pub(crate) fn check(&self) -> Result<(), String> {
        let sizes = [
            ("vocab_size", self.vocabulary),
            ("hidden_size", self.width),
            ("num_hidden_layers", self.layers),
            ("num_attention_heads", self.heads),
            ("num_key_value_heads", self.kv_heads),
            ("head_dim", self.head_size),
            ("intermediate_size", self.hidden),
            ("max_position_embeddings", self.context),
        ];
        /// Far above the sizes of any known model; it keeps products of two of them from overflowing.
        const MAX_SIZE: usize = 1 << 24;
        /// The largest vocabulary that onedraw draws from.
        const MAX_VOCABULARY: usize = 1 << 20;
        if let Some((name, size)) = sizes.into_iter().find(|&(_, size)| size == 0 || size > MAX_SIZE) {
            return Err(format!("`{name}` is {size}; it must be 1 to {MAX_SIZE}"));
        }
        if self.vocabulary > MAX_VOCABULARY {
            return Err(format!("`vocab_size` is {}; it must be 2^20 at most", self.vocabulary));
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(format!("{} heads cannot share {} heads of keys", self.heads, self.kv_heads));
        }
        if !self.head_size.is_multiple_of(2) {
            return Err(format!("`head_dim` is {}; positions need an even one", self.head_size));
        }
        if !(self.epsilon >= 0.0 && self.epsilon.is_finite()) {
            return Err(format!("`rms_norm_eps` is {}", self.epsilon));
        }
        if !(self.rope.theta > 0.0 && self.rope.theta.is_finite()) {
            return Err(format!("`rope_theta` is {}", self.rope.theta));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parsed(kind: &str, more: Value) -> Config {
        let mut file = json!({
            "model_type": kind,
            "vocab_size": 100,
            "hidden_size": 64,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "intermediate_size": 96,
            "max_position_embeddings": 8192,
            "rms_norm_eps": 1e-6,
        });
        file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Config::parse(Path::new("config.json"), &file.to_string()).unwrap()
    }

    #[test]
    fn what_a_file_leaves_out() {
        let config = parsed("llama", json!({}));
        assert_eq!((config.kv_heads, config.head_size, config.is_tied), (4, 16, false));
        assert_eq!(config.rope, Rope { theta: 10_000.0, scaling: Scaling::None });
        assert_eq!(parsed("qwen2", json!({})).head_size, 16);
        assert_eq!(parsed("qwen3", json!({})).head_size, 128);
        assert_eq!(parsed("qwen3", json!({ "head_dim": 32 })).head_size, 32);
    }

    #[test]
    fn windows_of_layers() {
        let windows = |kind, more| parsed(kind, more).windows;
        let types = json!(["sliding_attention", "full_attention", "sliding_attention"]);
        let (all, none) = (vec![Some(8); 3], vec![None; 3]);
        assert_eq!(windows("mistral", json!({ "sliding_window": 8 })), all);
        assert_eq!(windows("mistral", json!({ "sliding_window": null })), none);
        // Not the same as null.
        assert_eq!(windows("mistral", json!({})), vec![Some(4096); 3]);
        assert_eq!(windows("mistral", json!({ "sliding_window": 8, "layer_types": types })), all);
        assert_eq!(windows("llama", json!({ "sliding_window": 8, "layer_types": types })), none);
        assert_eq!(windows("qwen2", json!({ "sliding_window": 8, "max_window_layers": 1 })), none);
        let slides = json!({ "sliding_window": 8, "max_window_layers": 1, "use_sliding_window": true });
        assert_eq!(windows("qwen3", slides), [None, Some(8), Some(8)]);
        let slides = json!({ "sliding_window": 8, "use_sliding_window": true, "layer_types": types });
        assert_eq!(windows("qwen2", slides), [Some(8), None, Some(8)]);
    }

    #[test]
    fn rotary_scaling_in_older_and_newer_files() {
        let rope = |more| parsed("llama", more).rope;
        let linear = Rope { theta: 5.0, scaling: Scaling::Linear(2.0) };
        assert_eq!(
            rope(json!({ "rope_theta": 5.0, "rope_scaling": { "type": "linear", "factor": 2.0 } })),
            linear
        );
        let both = json!({ "type": "linear", "rope_type": "linear", "factor": 2.0 });
        assert_eq!(rope(json!({ "rope_theta": 5.0, "rope_scaling": both })), linear);
        let newer = json!({ "rope_theta": 5.0, "rope_type": "linear", "factor": 2.0 });
        assert_eq!(rope(json!({ "rope_parameters": newer })), linear);
        // As transformers reads a file that has both.
        let older = json!({ "rope_type": "linear", "factor": 3.0, "rope_theta": 7.0 });
        let both = rope(json!({ "rope_parameters": newer, "rope_scaling": older }));
        assert_eq!(both, Rope { theta: 7.0, scaling: Scaling::Linear(3.0) });
        assert_eq!(rope(json!({ "rope_theta": 5.0, "rope_scaling": null })).theta, 5.0);
    }
}
