//! Traces: everything that the tokens of a text depend on, as one line of JSON for each text, so that anybody
//! who has the model can [draw them again](crate::audit).
//!
//! `docs/src/trace.schema.json` describes a line. A [`Tracer`](crate::Tracer) writes lines, [`Lines`] reads them.

mod lines;

use std::collections::BTreeMap;
use std::fmt;

use onedraw::speculate::Verify;
use onedraw::{ConstraintText, FinishReason, Kept, PARAMETERS, STREAM_VERSION, SamplingParams, TokenLogprob};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub(crate) use lines::LONGEST;
pub use lines::{LineError, Lines};

/// The version of the format. It changes with every change that an earlier reader would misunderstand.
pub const TRACE_VERSION: u32 = 1;

/// One text: what it was drawn with, and its tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The version of the format, [`TRACE_VERSION`].
    pub version: u32,
    /// The version of the streams that drew the tokens, [`STREAM_VERSION`].
    pub stream_version: u32,
    /// The SHA-256 of the model's weights in hexadecimal ([`Llama::sha256`](crate::Llama::sha256)).
    pub model: String,
    /// The SHA-256 of tokenizer.json ([`Tokenizer::sha256`](crate::Tokenizer::sha256)).
    pub tokenizer: String,
    /// Every parameter, those with their default included, and the seed. Of the tokens only those that the request
    /// gave as the beginning of the output (`output_token_ids`); the prompt stands beside.
    pub params: SamplingParams,
    /// Which of the `n` sequences it is.
    pub sequence: u32,
    /// The tokens of the prompt.
    pub prompt_token_ids: Vec<u32>,
    /// The tokens that were written.
    pub output_token_ids: Vec<u32>,
    /// Why the text ended; `None` if it was cancelled, or if a token could not be drawn.
    pub finish_reason: Option<FinishReason>,
    /// The places of the output's tokens that a constraint forced: they were not drawn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forced: Vec<usize>,
    /// The tokens that were drawn and taken back because of a banned phrase, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken_back: Vec<TakenBack>,
    /// What the text had to match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraint: Option<ConstraintText>,
    /// What the model's logits were contrasted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contrast: Option<Counterpart>,
    /// Why the tokens cannot be drawn again from the logits of the text alone, if they cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_replayable: Option<NotReplayable>,
    /// Why a token could not be drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// For each token what `logprobs` asks for; `None` for one that was not drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<Vec<Option<TracedLogprob>>>,
    /// For each token what `kept` asks for; `None` for one that was not drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Vec<Option<Kept>>>,
}

/// Why tokens cannot be drawn again from the logits of the text alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotReplayable {
    /// A beam search found them.
    Beams,
    /// Guesses were verified by rejection sampling.
    Rejection,
    /// Guesses were verified block by block.
    Block,
    /// Guesses that are typical were taken.
    Typical,
    /// The chain has stages of a user's own.
    Stages,
    /// The constraint has no text.
    Constraint,
    /// The request gave some of the tokens.
    Given,
}

impl NotReplayable {
    /// Of guesses that are verified in this way; `None` if they change no token.
    pub fn verified(verify: Verify) -> Option<Self> {
        match verify {
            Verify::Exact => None,
            Verify::Rejection => Some(Self::Rejection),
            Verify::Block => Some(Self::Block),
            // The one that is left.
            _ => Some(Self::Typical),
        }
    }
}

impl fmt::Display for NotReplayable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Beams => "beams",
            Self::Rejection => "rejection",
            Self::Block => "block",
            Self::Typical => "typical",
            Self::Stages => "stages",
            Self::Constraint => "constraint",
            Self::Given => "given",
        })
    }
}

/// Tokens that were drawn and taken back. The first of them was banned at its position then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakenBack {
    /// The place of the first of them in the output.
    pub place: usize,
    /// The tokens.
    pub token_ids: Vec<u32>,
    /// The places in the output of those among them that a constraint forced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forced: Vec<usize>,
}

/// The logprob of a written token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracedLogprob {
    /// Its logprob, or its logit, as `logprobs_mode` says.
    pub logprob: f64,
    /// 1 + the tokens before it in the order.
    pub rank: u32,
    /// The token itself, then the best others.
    pub logprobs: Vec<TokenLogprob>,
}

/// What a model's logits are contrasted with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "snake_case")]
pub enum Counterpart {
    /// A weaker model.
    Amateur {
        /// The SHA-256 of its weights.
        model: String,
        /// A token must be so many times as likely as the best to be plausible.
        alpha: f64,
        /// As O'Brien and Lewis 2023; `None`: as Li and others 2022.
        beta: Option<f64>,
        /// The temperature of the weaker model, where there is no `beta`.
        amateur_temperature: f64,
    },
    /// The same model after another prompt.
    Guidance {
        /// How far away from that prompt; 1 is not at all.
        scale: f64,
        /// The tokens of that prompt.
        negative_prompt_token_ids: Vec<u32>,
    },
    /// Earlier layers of the same model.
    Dola {
        /// A token must be so many times as likely as the best to be plausible.
        alpha: f64,
        /// The layers; empty: the lower half.
        layers: Vec<usize>,
    },
}

impl Counterpart {
    /// By how much the contrast can amplify small differences of logits: the sum of the factors, without their signs,
    /// with which it takes the two rows.
    pub(crate) fn amplification(&self) -> f64 {
        match self {
            Self::Amateur { beta: Some(beta), .. } => 1.0 + 2.0 * beta.abs(),
            Self::Amateur { beta: None, amateur_temperature, .. } => 1.0 + 1.0 / amateur_temperature,
            Self::Guidance { scale, .. } => scale.abs() + (scale - 1.0).abs(),
            Self::Dola { .. } => 2.0,
        }
    }
}

/// Tokens that were drawn one after the other, without any being taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// How many tokens of the output stood before it.
    pub start: usize,
    /// The tokens.
    pub tokens: Vec<u32>,
    /// Whether each of them was forced.
    pub is_forced: Vec<bool>,
}

/// What is read of a line before the rest: a line of another version may have other fields.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    version: Option<&'a RawValue>,
    #[serde(borrow)]
    stream_version: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

impl Head<'_> {
    fn check(&self) -> Result<(), String> {
        let versions = [
            ("version", self.version, TRACE_VERSION),
            ("stream_version", self.stream_version, STREAM_VERSION),
        ];
        for (name, found, known) in versions {
            let found = found.ok_or_else(|| format!("`{name}` is missing: this is no trace"))?;
            match found.get().parse::<u64>() {
                Ok(found) if found == u64::from(known) => {}
                Ok(found) => return Err(format!("`{name}` is {found}; this program knows {known}")),
                Err(_) => return Err(format!("`{name}` is not a whole number")),
            }
        }
        // By themselves, for an error that names the parameter.
        let params = self.params.ok_or("`params` is missing")?.get();
        SamplingParams::from_json(params).map_err(|error| format!("`params`: {error}"))?;
        let given: BTreeMap<String, IgnoredAny> =
            serde_json::from_str(params).map_err(|error| format!("`params`: {error}"))?;
        match PARAMETERS.iter().find(|parameter| !given.contains_key(parameter.name)) {
            Some(parameter) => {
                Err(format!("`params`: {}: is missing; a trace has every parameter", parameter.name))
            }
            None => Ok(()),
        }
    }
}

impl Trace {
    /// Reads a line. The error says what is wrong with it.
    pub fn parse(line: &str) -> Result<Self, String> {
        let wrong = |error: serde_json::Error| match error.classify() {
            serde_json::error::Category::Data => error.to_string(),
            _ => format!("is not JSON: {error}"),
        };
        if !line.trim_start().starts_with('{') {
            serde_json::from_str::<IgnoredAny>(line).map_err(wrong)?;
            return Err("is not a JSON object".to_owned());
        }
        serde_json::from_str::<Head>(line).map_err(wrong)?.check()?;
        let trace: Self = serde_json::from_str(line).map_err(wrong)?;
        trace.check()?;
        Ok(trace)
    }

    /// Checks what the types do not say.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.params.seed.is_none() && self.not_replayable.is_none() {
            return Err("`params` has no seed".to_owned());
        }
        if self.prompt_token_ids.is_empty() {
            return Err("`prompt_token_ids` is empty".to_owned());
        }
        if !self.params.prompt_token_ids.is_empty() {
            return Err("`params` has a prompt; it belongs beside them, as `prompt_token_ids`".to_owned());
        }
        let length = self.output_token_ids.len();
        if let Some(place) = self.forced.iter().find(|&&place| place >= length) {
            return Err(format!("`forced` names the place {place} of {length} output tokens"));
        }
        for (name, entries) in
            [("logprobs", self.logprobs.as_ref().map(Vec::len)), ("kept", self.kept.as_ref().map(Vec::len))]
        {
            if let Some(entries) = entries.filter(|&entries| entries != length) {
                return Err(format!("`{name}` has {entries} entries for {length} output tokens"));
            }
        }
        self.legs().map(drop)
    }

    /// What was drawn, in the order of time: one leg, and one more for each time that tokens were taken back.
    pub fn legs(&self) -> Result<Vec<Leg>, String> {
        // From the end: before tokens were taken back, the text was what stands now up to their place, and they.
        let mut text = self.output_token_ids.clone();
        let mut is_forced = vec![false; text.len()];
        mark(&mut is_forced, &self.forced);
        let mut legs = Vec::with_capacity(self.taken_back.len() + 1);
        for taken in self.taken_back.iter().rev() {
            let TakenBack { place, token_ids, forced } = taken;
            if *place > text.len() {
                return Err(format!(
                    "`taken_back` names the place {place} of a text of {} tokens",
                    text.len()
                ));
            }
            if token_ids.is_empty() {
                return Err(format!("`taken_back` has no token at the place {place}"));
            }
            let end = place + token_ids.len();
            if let Some(forced) = forced.iter().find(|forced| !(*place..end).contains(forced)) {
                return Err(format!(
                    "`taken_back` names {forced} as forced among the places {place} to {}",
                    end - 1
                ));
            }
            legs.push(Leg {
                start: *place,
                tokens: text.split_off(*place),
                is_forced: is_forced.split_off(*place),
            });
            text.extend(token_ids);
            is_forced.resize(text.len(), false);
            mark(&mut is_forced, forced);
        }
        legs.push(Leg { start: 0, tokens: text, is_forced });
        legs.reverse();
        Ok(legs)
    }
}

/// Marks the places, as far as there are such.
fn mark(is_forced: &mut [bool], places: &[usize]) {
    for &place in places {
        if let Some(is_forced) = is_forced.get_mut(place) {
            *is_forced = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use onedraw::Order;
    use serde_json::Value;

    use super::*;

    fn trace(output: &[u32], taken_back: &[(usize, &[u32])]) -> Trace {
        let taken = |&(place, token_ids): &(usize, &[u32])| TakenBack {
            place,
            token_ids: token_ids.to_vec(),
            forced: Vec::new(),
        };
        Trace {
            version: TRACE_VERSION,
            stream_version: STREAM_VERSION,
            model: "m".into(),
            tokenizer: "t".into(),
            params: SamplingParams { seed: Some(1), order: Some(Order::default()), ..Default::default() },
            sequence: 0,
            prompt_token_ids: vec![1],
            output_token_ids: output.to_vec(),
            finish_reason: None,
            forced: vec![0],
            taken_back: taken_back.iter().map(taken).collect(),
            constraint: None,
            contrast: None,
            not_replayable: None,
            error: None,
            logprobs: None,
            kept: None,
        }
    }

    #[test]
    fn legs_are_what_was_drawn() {
        // 5 6 7 8 were drawn, 7 8 taken back; then 9 10, of which 6 9 10 were taken back; then 11.
        let trace = trace(&[5, 11], &[(2, &[7, 8]), (1, &[6, 9, 10])]);
        let leg = |start: usize, tokens: &[u32], is_forced: &[bool]| Leg {
            start,
            tokens: tokens.to_vec(),
            is_forced: is_forced.to_vec(),
        };
        let expected = [
            leg(0, &[5, 6, 7, 8], &[true, false, false, false]),
            leg(2, &[9, 10], &[false; 2]),
            leg(1, &[11], &[false]),
        ];
        assert_eq!(trace.legs(), Ok(expected.to_vec()));
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let trace = trace(&[5, 11], &[(1, &[6])]);
        let line = serde_json::to_string(&trace).expect("a line");
        assert_eq!(Trace::parse(&line), Ok(trace));
    }

    #[test]
    fn bad_lines_are_told_apart() {
        let line = serde_json::to_value(trace(&[5, 11], &[])).expect("a line");
        let with = |name: &str, value: Value| {
            let mut line = line.clone();
            line[name] = value;
            Trace::parse(&line.to_string()).expect_err(name)
        };
        assert!(Trace::parse("{\"version\":1").expect_err("cut").starts_with("is not JSON: EOF"));
        assert_eq!(Trace::parse("3"), Err("is not a JSON object".to_owned()));
        assert_eq!(Trace::parse("{}"), Err("`version` is missing: this is no trace".to_owned()));
        assert_eq!(with("version", 2.into()), "`version` is 2; this program knows 1");
        assert_eq!(with("stream_version", 7.into()), "`stream_version` is 7; this program knows 1");
        assert_eq!(with("stream_version", "x".into()), "`stream_version` is not a whole number");
        let error = with("params", serde_json::json!({"seed": 1, "temprature": 2.0}));
        assert!(error.starts_with("`params`: ") && error.contains("temprature"), "{error}");
        let mut params = line["params"].clone();
        params["seed"] = Value::Null;
        assert_eq!(with("params", params.clone()), "`params` has no seed");
        params.as_object_mut().expect("parameters").remove("top_p");
        assert_eq!(with("params", params), "`params`: top_p: is missing; a trace has every parameter");
        assert!(with("not_replayable", "because".into()).contains("unknown variant `because`"));
        assert_eq!(with("prompt_token_ids", Value::Array(Vec::new())), "`prompt_token_ids` is empty");
        assert_eq!(with("forced", serde_json::json!([2])), "`forced` names the place 2 of 2 output tokens");
        assert_eq!(with("kept", serde_json::json!([null])), "`kept` has 1 entries for 2 output tokens");
        assert!(with("surprise", 1.into()).contains("unknown field `surprise`"));
        assert!(with("output_token_ids", serde_json::json!([-1])).contains("invalid value"));
        let taken = serde_json::json!([{"place": 3, "token_ids": [1]}]);
        assert_eq!(with("taken_back", taken), "`taken_back` names the place 3 of a text of 2 tokens");
        let taken = serde_json::json!([{"place": 1, "token_ids": []}]);
        assert_eq!(with("taken_back", taken), "`taken_back` has no token at the place 1");
        let taken = serde_json::json!([{"place": 1, "token_ids": [4, 5], "forced": [3]}]);
        assert_eq!(with("taken_back", taken), "`taken_back` names 3 as forced among the places 1 to 2");
    }
}
