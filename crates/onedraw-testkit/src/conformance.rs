//! What other systems answered for given logits and parameters. `data/README.md` says where each file is
//! from.

use std::collections::BTreeMap;

use onedraw::{Order, ParamError, SamplingParams};
use serde::Deserialize;
use serde_json::Value;

/// Probabilities below this on both sides are not compared: the peers compute in f32.
pub const NEGLIGIBLE: f64 = 1e-8;

/// One row with its parameters and a peer's answer.
#[derive(Clone, Debug)]
pub struct Case {
    /// What the case is about; unique in its file.
    pub name: String,
    /// The row; −inf where the peer's logit was.
    pub logits: Vec<f32>,
    /// The parameters as a JSON object.
    pub params: Value,
    /// The name of the peer's order of stages; `None`: the default.
    pub order: Option<String>,
    /// The probability of every id, 0 where it was removed.
    pub expected: Vec<f64>,
    /// The tokens of the support in the peer's order, each with its logprob before any edit, where the peer
    /// says so.
    pub raw_logprobs: Option<Vec<(u32, f64)>>,
}

impl Case {
    /// The parameters with the peer's order.
    pub fn sampling_params(&self) -> Result<SamplingParams, ParamError> {
        let mut params = SamplingParams::from_value(self.params.clone())?;
        params.order = self.order.as_deref().map(str::parse::<Order>).transpose()?;
        params.validate()?;
        Ok(params)
    }

    /// Compares an answer with the peer's. Tokens that either side gives less than [`NEGLIGIBLE`] may be
    /// missing on the other; all other tokens must stand in the peer's order, where it is known.
    pub fn check(&self, tokens: &[u32], probabilities: &[f64], tolerance: f64) -> Result<(), String> {
        let mut by_id = vec![0.0; self.expected.len()];
        for (&token, &probability) in tokens.iter().zip(probabilities) {
            let place =
                by_id.get_mut(token as usize).ok_or_else(|| format!("token {token} is not in the row"))?;
            *place = probability;
        }
        for (token, (&want, &got)) in self.expected.iter().zip(&by_id).enumerate() {
            if (want < NEGLIGIBLE) != (got < NEGLIGIBLE) && (want == 0.0 || got == 0.0) {
                return Err(format!(
                    "the support differs: token {token} has {got:e}, the peer gave {want:e}"
                ));
            }
            let is_near = (want - got).abs() <= tolerance;
            if !is_near {
                return Err(format!("token {token} has {got:e}, the peer gave {want:e}"));
            }
        }
        let Some(raw) = &self.raw_logprobs else { return Ok(()) };
        let counts = |token: u32| {
            let id = token as usize;
            self.expected[id] >= NEGLIGIBLE || by_id[id] >= NEGLIGIBLE
        };
        let peers: Vec<u32> = raw.iter().map(|pair| pair.0).filter(|&token| counts(token)).collect();
        let ours: Vec<u32> = tokens.iter().copied().filter(|&token| counts(token)).collect();
        if peers != ours {
            return Err(format!("the order is {ours:?}, the peer gave {peers:?}"));
        }
        Ok(())
    }
}

/// vLLM: whole chains, in its order.
pub fn vllm() -> Vec<Case> {
    read(include_str!("../data/vllm.json")).0
}

/// Hugging Face transformers: single processors and one chain.
pub fn hugging_face() -> Vec<Case> {
    read(include_str!("../data/hugging_face.json")).0
}

/// llama.cpp: single samplers.
pub fn llama_cpp() -> Vec<Case> {
    read(include_str!("../data/llama_cpp.json")).0
}

/// Truncations one after the other, as llama.cpp's queues of samplers leave them, over one row of 10,000
/// logits.
#[derive(Clone, Debug)]
pub struct Queues {
    /// The logit of id i is ln(i), so its weight is i; id 0 is masked.
    pub logits: Vec<f32>,
    /// The queues.
    pub queues: Vec<Queue>,
}

/// One queue and what it leaves.
#[derive(Clone, Debug)]
pub struct Queue {
    /// The stages with commas between them, for example `top_k,min_p`.
    pub order: String,
    /// Parameters that set these stages, in this order, and no others.
    pub params: SamplingParams,
    /// How many tokens are left.
    pub size: usize,
    /// The best token.
    pub first: u32,
    /// The last token of the order.
    pub last: u32,
}

/// llama.cpp: queues of top-k, top-p and min-p in fifteen orders.
pub fn llama_cpp_queues() -> Queues {
    let file = read(include_str!("../data/llama_cpp.json")).1.expect("llama.cpp's file holds queues");
    let logits =
        (0..10_000).map(|i| if i == 0 { f32::NEG_INFINITY } else { f64::from(i).ln() as f32 }).collect();
    let queue = |letters: &String| {
        let mut params = SamplingParams::default();
        let stage = |letter| match letter {
            'k' => {
                params.top_k = file.k;
                "top_k"
            }
            'p' => {
                params.top_p = file.p;
                "top_p"
            }
            'm' => {
                params.min_p = file.m;
                "min_p"
            }
            other => panic!("a queue is made of the letters k, p and m, not {other}"),
        };
        let order = letters.chars().map(stage).collect::<Vec<_>>().join(",");
        params.order = Some(order.parse().expect("these are names of stages"));
        let left = &file.expected[letters];
        Queue { order, params, size: left.size, first: left.first, last: left.last }
    };
    Queues { logits, queues: file.orders.iter().map(queue).collect() }
}

#[derive(Deserialize)]
struct File {
    cases: Vec<FileCase>,
    queues: Option<FileQueues>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCase {
    name: String,
    order: Option<String>,
    logits: Vec<Option<f64>>,
    params: Value,
    probabilities_by_id: Option<Vec<f64>>,
    tokens: Option<Vec<u32>>,
    probabilities: Option<Vec<f64>>,
    raw_logprobs_of_tokens: Option<Vec<f64>>,
}

#[derive(Deserialize)]
struct FileQueues {
    k: i64,
    p: f64,
    m: f64,
    orders: Vec<String>,
    expected: std::collections::BTreeMap<String, FileQueue>,
}

#[derive(Deserialize)]
struct FileQueue {
    size: usize,
    first: u32,
    last: u32,
}

fn read(text: &str) -> (Vec<Case>, Option<FileQueues>) {
    let file: File =
        serde_json::from_str(text).expect("the embedded file has the form described in data/README.md");
    (file.cases.into_iter().map(case).collect(), file.queues)
}

fn case(case: FileCase) -> Case {
    let logits: Vec<f32> =
        case.logits.iter().map(|logit| logit.map_or(f32::NEG_INFINITY, |logit| logit as f32)).collect();
    let expected = match (case.probabilities_by_id, &case.tokens, case.probabilities) {
        (Some(by_id), None, None) => by_id,
        (None, Some(tokens), Some(probabilities)) => {
            assert_eq!(tokens.len(), probabilities.len(), "{}: each token has a probability", case.name);
            let mut by_id = vec![0.0; logits.len()];
            for (&token, probability) in tokens.iter().zip(probabilities) {
                by_id[token as usize] = probability;
            }
            by_id
        }
        _ => panic!("{}: either probabilities by id, or tokens and their probabilities", case.name),
    };
    assert_eq!(expected.len(), logits.len(), "{}: each id has a probability", case.name);
    let raw_logprobs = case.raw_logprobs_of_tokens.map(|logprobs| {
        let tokens = case.tokens.expect("logprobs of tokens come with the tokens");
        assert_eq!(tokens.len(), logprobs.len(), "{}: each token has a logprob", case.name);
        tokens.into_iter().zip(logprobs).collect()
    });
    Case { name: case.name, logits, params: case.params, order: case.order, expected, raw_logprobs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_hold_what_their_readme_says() {
        assert_eq!([vllm().len(), hugging_face().len(), llama_cpp().len()], [160, 106, 36]);
        assert_eq!(llama_cpp_queues().queues.len(), 15);
        for case in vllm().into_iter().chain(hugging_face()).chain(llama_cpp()) {
            let total: f64 = case.expected.iter().sum();
            assert!((total - 1.0).abs() < 1e-5, "{}: {total}", case.name);
            assert!(case.sampling_params().is_ok(), "{}", case.name);
        }
    }

    #[test]
    fn queues_set_the_stages_they_name() {
        let Queues { logits, queues } = llama_cpp_queues();
        assert_eq!((logits.len(), logits[0], logits[1]), (10_000, f32::NEG_INFINITY, 0.0));
        let last = queues.last().unwrap();
        assert_eq!(
            (last.order.as_str(), last.size, last.first, last.last),
            ("min_p,top_p,top_k", 100, 9999, 9900)
        );
        for queue in queues {
            assert_eq!(queue.params.validate(), Ok(()), "{}", queue.order);
        }
    }

    #[test]
    fn check_compares_support_order_and_probabilities() {
        let case = vllm().into_iter().find(|case| case.name == "vllm-1-3").unwrap();
        let p = [0.38335990, 0.33164245, 0.28499758];
        assert_eq!(case.check(&[6, 0, 4], &p, 2e-6), Ok(()));
        assert!(
            case.check(&[0, 6, 4], &[p[1], p[0], p[2]], 2e-6)
                .unwrap_err()
                .starts_with("the order is [0, 6, 4]")
        );
        assert!(
            case.check(&[6, 0, 4], &[p[0], p[1] + 1e-5, p[2]], 2e-6).unwrap_err().starts_with("token 0 has")
        );
        assert!(case.check(&[6, 0], &p[..2], 2e-6).unwrap_err().starts_with("the support differs: token 4"));
        assert!(case.check(&[6, 0, 4, 1], &[p[0], p[1], p[2], 1e-7], 2e-6).is_err());
        assert_eq!(case.check(&[6, 0, 4, 1], &[p[0], p[1], p[2], 1e-9], 2e-6), Ok(()));
        assert!(case.check(&[99], &[1.0], 2e-6).is_err());
    }
}

/// A beam search of Hugging Face's on a model of the second order.
#[derive(Clone, Debug, Deserialize)]
pub struct BeamCase {
    /// The logits of the model: `table[previous][current][next]`, flat.
    #[serde(skip)]
    pub table: Vec<f32>,
    #[serde(rename = "table")]
    place: usize,
    /// Its tokens.
    pub vocab: usize,
    /// The width.
    pub num_beams: usize,
    /// The power of the length.
    pub length_penalty: f64,
    /// `false`, `true` or `"never"`.
    pub early_stopping: serde_json::Value,
    /// The most tokens.
    pub max_new_tokens: u32,
    /// The prompt.
    pub prompt: Vec<u32>,
    /// The id that ends a text.
    pub eos: u32,
    /// What was found, the best first.
    pub sequences: Vec<Vec<u32>>,
    /// Its scores, to six digits.
    pub scores: Vec<f64>,
}

/// Beam searches of transformers 5.22.2.
pub fn hugging_face_beam() -> Vec<BeamCase> {
    #[derive(Deserialize)]
    struct File {
        tables: BTreeMap<String, Vec<f32>>,
        cases: Vec<BeamCase>,
    }
    let file: File = serde_json::from_str(include_str!("../data/hugging_face_beam.json")).expect("the data");
    let table = |case: &BeamCase| file.tables[&case.place.to_string()].clone();
    file.cases.iter().map(|case| BeamCase { table: table(case), ..case.clone() }).collect()
}
