//! One layer: attention and a perceptron, each after a norm, each added to the state.

use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, dispatch, f32x16};

use crate::config::{AttentionBias, Config};
use crate::error::ModelError;
use crate::kernels::dot::{Arranged, squares};
use crate::kernels::exponential::exp;
use crate::llama::rope::Turned;
use crate::matrix::{Matrix, Team};
use crate::weights::Weights;

/// A matrix and what is added to its products.
struct Product {
    matrix: Matrix,
    bias: Option<Vec<f32>>,
}

/// The weights of one layer.
pub(crate) struct Layer {
    attention_norm: Vec<f32>,
    queries: Product,
    keys: Product,
    values: Product,
    output: Product,
    /// Of queries and keys, head by head.
    head_norms: Option<(Vec<f32>, Vec<f32>)>,
    perceptron_norm: Vec<f32>,
    gate: Product,
    up: Product,
    down: Product,
    epsilon: f32,
    head_size: usize,
}

/// Where the layers of a pass write, one after the other, so that none has to ask for memory.
#[derive(Default)]
pub(crate) struct Desk {
    /// Of all positions.
    pub queries: Vec<f32>,
    pub keys: Vec<f32>,
    pub values: Vec<f32>,
    /// What attention took.
    pub mixed: Vec<f32>,
    normed: Vec<f32>,
    arranged: Arranged,
    out: Vec<f32>,
    gates: Vec<f32>,
}

impl Product {
    fn new(
        weights: &Weights,
        name: &str,
        (rows, columns): (usize, usize),
        has_bias: bool,
    ) -> Result<Self, ModelError> {
        let bias = has_bias.then(|| weights.vector(&format!("{name}.bias"), rows)).transpose()?;
        Ok(Self { matrix: weights.matrix(&format!("{name}.weight"), rows, columns)?, bias })
    }

    fn times(&self, team: &Team, positions: &Arranged, out: &mut Vec<f32>) {
        self.matrix.times(team, positions, out);
        if let Some(bias) = &self.bias {
            for row in out.chunks_exact_mut(bias.len()) {
                row.iter_mut().zip(bias).for_each(|(number, bias)| *number += bias);
            }
        }
    }
}

impl Layer {
    /// The layer whose weights have names that begin so.
    pub(crate) fn new(config: &Config, weights: &Weights, prefix: &str) -> Result<Self, ModelError> {
        let (width, hidden, size) = (config.width, config.hidden, config.head_size);
        let (query, key) = (config.heads * size, config.kv_heads * size);
        let name = |part: &str| format!("{prefix}.{part}");
        let inputs = config.attention_bias != AttentionBias::None;
        let product = |part: &str, shape, has_bias| Product::new(weights, &name(part), shape, has_bias);
        let head_norm = |part: &str| weights.vector(&name(part), size);
        Ok(Self {
            attention_norm: weights.vector(&name("input_layernorm.weight"), width)?,
            queries: product("self_attn.q_proj", (query, width), inputs)?,
            keys: product("self_attn.k_proj", (key, width), inputs)?,
            values: product("self_attn.v_proj", (key, width), inputs)?,
            output: product("self_attn.o_proj", (width, query), config.attention_bias == AttentionBias::All)?,
            head_norms: match config.head_norms {
                true => Some((head_norm("self_attn.q_norm.weight")?, head_norm("self_attn.k_norm.weight")?)),
                false => None,
            },
            perceptron_norm: weights.vector(&name("post_attention_layernorm.weight"), width)?,
            gate: product("mlp.gate_proj", (hidden, width), config.mlp_bias)?,
            up: product("mlp.up_proj", (hidden, width), config.mlp_bias)?,
            down: product("mlp.down_proj", (width, hidden), config.mlp_bias)?,
            epsilon: config.epsilon,
            head_size: size,
        })
    }

    /// The matrices, in the order in which a pass takes them.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = &Matrix> {
        let products =
            [&self.queries, &self.keys, &self.values, &self.output, &self.gate, &self.up, &self.down];
        products.into_iter().map(|product| &product.matrix)
    }

    /// Queries, keys and values of all states, turned by their positions.
    pub(crate) fn heads(&self, team: &Team, states: &[f32], turned: &[Turned], desk: &mut Desk) {
        norm(team.level, states, &self.attention_norm, self.epsilon, &mut desk.normed);
        desk.arranged.set(&desk.normed, self.attention_norm.len());
        self.queries.times(team, &desk.arranged, &mut desk.queries);
        self.keys.times(team, &desk.arranged, &mut desk.keys);
        self.values.times(team, &desk.arranged, &mut desk.values);
        if let Some((queries, keys)) = &self.head_norms {
            for (numbers, weights) in [(&mut desk.queries, queries), (&mut desk.keys, keys)] {
                norm(team.level, numbers, weights, self.epsilon, &mut desk.normed);
                std::mem::swap(numbers, &mut desk.normed);
            }
        }
        for numbers in [&mut desk.queries, &mut desk.keys] {
            let row = numbers.len() / turned.len().max(1);
            for (numbers, turned) in numbers.chunks_exact_mut(row).zip(turned) {
                numbers.chunks_exact_mut(self.head_size).for_each(|head| turned.turn(head));
            }
        }
    }

    /// Adds what attention took, and then what the perceptron makes of it.
    pub(crate) fn advance(&self, team: &Team, desk: &mut Desk, states: &mut [f32]) {
        desk.arranged.set(&desk.mixed, self.queries.matrix.rows());
        self.output.times(team, &desk.arranged, &mut desk.out);
        add(states, &desk.out);
        norm(team.level, states, &self.perceptron_norm, self.epsilon, &mut desk.normed);
        desk.arranged.set(&desk.normed, self.perceptron_norm.len());
        self.gate.times(team, &desk.arranged, &mut desk.gates);
        self.up.times(team, &desk.arranged, &mut desk.out);
        gate(team, &desk.gates, &mut desk.out);
        desk.arranged.set(&desk.out, self.gate.matrix.rows());
        self.down.times(team, &desk.arranged, &mut desk.out);
        add(states, &desk.out);
    }
}

fn add(states: &mut [f32], more: &[f32]) {
    states.iter_mut().zip(more).for_each(|(state, more)| *state += more);
}

/// Rows divided by the root of their mean square, number by number times `weights`.
pub(crate) fn norm(level: Level, rows: &[f32], weights: &[f32], epsilon: f32, normed: &mut Vec<f32>) {
    normed.clear();
    dispatch!(level, simd => {
        for row in rows.chunks_exact(weights.len()) {
            let factor = 1.0 / (squares(simd, row) / row.len() as f32 + epsilon).sqrt();
            normed.extend(row.iter().zip(weights).map(|(number, weight)| number * factor * weight));
        }
    });
}

/// `numbers` times the sigmoid-weighted gates: g / (1 + e^−g).
fn gate(team: &Team, gates: &[f32], numbers: &mut [f32]) {
    dispatch!(team.level, simd => {
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
fn gated<S: Simd>(simd: S, gates: &[f32; 16], numbers: &[f32; 16]) -> [f32; 16] {
    let (gates, numbers) = (f32x16::load_array_ref(simd, gates), f32x16::load_array_ref(simd, numbers));
    (gates / (exp(-gates) + 1.0) * numbers).into()
}
