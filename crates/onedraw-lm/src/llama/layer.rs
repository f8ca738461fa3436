//! One layer: attention and a feed-forward part, each after a norm, each added to the state.

use fearless_simd::f32x16;
use fearless_simd::prelude::*;

use crate::config::{AttentionBias, Config};
use crate::error::ModelError;
use crate::kernels::dot::{Inputs, squares};
use crate::kernels::exponential::exp;
use crate::kernels::lanes::{Instructions, Lanes, vectorized};
use crate::llama::rope::Rotation;
use crate::matrix::Matrix;
use crate::team::Team;
use crate::weights::Weights;

/// A matrix, and a bias that is added to its products.
struct Linear {
    matrix: Matrix,
    bias: Option<Vec<f32>>,
}

/// The weights of one layer.
pub(crate) struct Layer {
    attention_norm: Vec<f32>,
    queries: Linear,
    keys: Linear,
    values: Linear,
    output: Linear,
    /// Norms of each head of the queries and of the keys (qwen3).
    head_norms: Option<(Vec<f32>, Vec<f32>)>,
    feed_forward_norm: Vec<f32>,
    gate: Linear,
    up: Linear,
    down: Linear,
    epsilon: f32,
    head_size: usize,
}

/// Memory that the layers of a pass use one after the other, so that it is allocated once.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Of all positions, like the next two.
    pub queries: Vec<f32>,
    pub keys: Vec<f32>,
    pub values: Vec<f32>,
    /// The output of the attention.
    pub mixed: Vec<f32>,
    normed: Vec<f32>,
    inputs: Inputs,
    out: Vec<f32>,
    gates: Vec<f32>,
}

impl Linear {
    fn new(
        weights: &Weights,
        name: &str,
        (rows, columns): (usize, usize),
        has_bias: bool,
    ) -> Result<Self, ModelError> {
        let bias = has_bias.then(|| weights.vector(&format!("{name}.bias"), rows)).transpose()?;
        Ok(Self { matrix: weights.matrix(&format!("{name}.weight"), rows, columns)?, bias })
    }

    fn times(&self, team: &Team, inputs: &Inputs, out: &mut Vec<f32>) {
        self.matrix.times(team, inputs, out);
        if let Some(bias) = &self.bias {
            for row in out.chunks_exact_mut(bias.len()) {
                row.iter_mut().zip(bias).for_each(|(number, bias)| *number += bias);
            }
        }
    }
}

impl Layer {
    /// The layer whose weights have names with this prefix.
    pub(crate) fn new(config: &Config, weights: &Weights, prefix: &str) -> Result<Self, ModelError> {
        let (width, hidden, size) = (config.width, config.hidden, config.head_size);
        let (query, key) = (config.heads * size, config.kv_heads * size);
        let name = |part: &str| format!("{prefix}.{part}");
        let has_bias = config.attention_bias != AttentionBias::None;
        let linear = |part: &str, shape, has_bias| Linear::new(weights, &name(part), shape, has_bias);
        let head_norm = |part: &str| weights.vector(&name(part), size);
        Ok(Self {
            attention_norm: weights.vector(&name("input_layernorm.weight"), width)?,
            queries: linear("self_attn.q_proj", (query, width), has_bias)?,
            keys: linear("self_attn.k_proj", (key, width), has_bias)?,
            values: linear("self_attn.v_proj", (key, width), has_bias)?,
            output: linear("self_attn.o_proj", (width, query), config.attention_bias == AttentionBias::All)?,
            head_norms: match config.head_norms {
                true => Some((head_norm("self_attn.q_norm.weight")?, head_norm("self_attn.k_norm.weight")?)),
                false => None,
            },
            feed_forward_norm: weights.vector(&name("post_attention_layernorm.weight"), width)?,
            gate: linear("mlp.gate_proj", (hidden, width), config.mlp_bias)?,
            up: linear("mlp.up_proj", (hidden, width), config.mlp_bias)?,
            down: linear("mlp.down_proj", (width, hidden), config.mlp_bias)?,
            epsilon: config.epsilon,
            head_size: size,
        })
    }

    /// The matrices in the order in which a pass reads them.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = &Matrix> {
        let linears =
            [&self.queries, &self.keys, &self.values, &self.output, &self.gate, &self.up, &self.down];
        linears.into_iter().map(|linear| &linear.matrix)
    }

    /// Computes the queries, keys and values of all states; queries and keys are rotated by their positions.
    pub(crate) fn heads(&self, team: &Team, states: &[f32], rotations: &[Rotation], scratch: &mut Scratch) {
        norm(team.instructions, states, &self.attention_norm, self.epsilon, &mut scratch.normed);
        scratch.inputs.set(&scratch.normed, self.attention_norm.len());
        self.queries.times(team, &scratch.inputs, &mut scratch.queries);
        self.keys.times(team, &scratch.inputs, &mut scratch.keys);
        self.values.times(team, &scratch.inputs, &mut scratch.values);
        if let Some((queries, keys)) = &self.head_norms {
            for (numbers, weights) in [(&mut scratch.queries, queries), (&mut scratch.keys, keys)] {
                norm(team.instructions, numbers, weights, self.epsilon, &mut scratch.normed);
                std::mem::swap(numbers, &mut scratch.normed);
            }
        }
        for numbers in [&mut scratch.queries, &mut scratch.keys] {
            let row = numbers.len() / rotations.len().max(1);
            for (numbers, rotation) in numbers.chunks_exact_mut(row).zip(rotations) {
                numbers.chunks_exact_mut(self.head_size).for_each(|head| rotation.rotate(head));
            }
        }
    }

    /// Adds the output of the attention to the states, and then that of the feed-forward part.
    pub(crate) fn advance(&self, team: &Team, scratch: &mut Scratch, states: &mut [f32]) {
        scratch.inputs.set(&scratch.mixed, self.queries.matrix.rows());
        self.output.times(team, &scratch.inputs, &mut scratch.out);
        add(states, &scratch.out);
        norm(team.instructions, states, &self.feed_forward_norm, self.epsilon, &mut scratch.normed);
        scratch.inputs.set(&scratch.normed, self.feed_forward_norm.len());
        self.gate.times(team, &scratch.inputs, &mut scratch.gates);
        self.up.times(team, &scratch.inputs, &mut scratch.out);
        gate(team, &scratch.gates, &mut scratch.out);
        scratch.inputs.set(&scratch.out, self.gate.matrix.rows());
        self.down.times(team, &scratch.inputs, &mut scratch.out);
        add(states, &scratch.out);
    }
}

fn add(states: &mut [f32], more: &[f32]) {
    states.iter_mut().zip(more).for_each(|(state, more)| *state += more);
}

/// Divides each row by the root of its mean square, and multiplies its numbers by `weights`.
pub(crate) fn norm(
    instructions: Instructions,
    rows: &[f32],
    weights: &[f32],
    epsilon: f32,
    normed: &mut Vec<f32>,
) {
    normed.clear();
    vectorized!(instructions, simd => {
        for row in rows.chunks_exact(weights.len()) {
            let factor = 1.0 / (squares(simd, row) / row.len() as f32 + epsilon).sqrt();
            normed.extend(row.iter().zip(weights).map(|(number, weight)| number * factor * weight));
        }
    });
}

/// Multiplies `numbers` by the gates, each weighted by its sigmoid: g / (1 + e^−g).
fn gate(team: &Team, gates: &[f32], numbers: &mut [f32]) {
    vectorized!(team.instructions, simd => {
        let (whole, rest) = numbers.as_chunks_mut::<16>();
        let (whole_gates, rest_gates) = gates.as_chunks::<16>();
        for (numbers, gates) in whole.iter_mut().zip(whole_gates) {
            *numbers = gated(simd, gates, numbers);
        }
        let (mut last_gates, mut last) = ([0.0; 16], [0.0; 16]);
        last_gates[..rest.len()].copy_from_slice(rest_gates);
        last[..rest.len()].copy_from_slice(rest);
        rest.copy_from_slice(&gated(simd, &last_gates, &last)[..rest.len()]);
    });
}

#[inline(always)]
fn gated<S: Lanes>(simd: S, gates: &[f32; 16], numbers: &[f32; 16]) -> [f32; 16] {
    let (gates, numbers) = (f32x16::load_array_ref(simd, gates), f32x16::load_array_ref(simd, numbers));
    (gates / (exp(-gates) + 1.0) * numbers).into()
}
