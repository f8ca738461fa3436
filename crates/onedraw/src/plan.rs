//! Parameters, checked once and laid out as the draw reads them.

use crate::chain::Stage;
use crate::edit::Edit;
use crate::edit::allowed::Allowed;
use crate::edit::bad_words::BadWords;
use crate::edit::bias::LogitBias;
use crate::edit::min_tokens::MinTokens;
use crate::edit::penalty::Penalties;
use crate::edit::temperature::Temperature;
use crate::error::{ParamError, RowError};
use crate::float_mode::Standard;
use crate::params::{GREEDY_BELOW, SamplingParams};
use crate::row::MAX_VOCABULARY;
use crate::truncate::Truncation;

/// A validated chain. Stages whose parameters do nothing are not in it.
///
/// The chain falls into segments. A segment begins with edits, then come temperatures and truncations, which are
/// only asked about and need no list of tokens. An edit after them begins the next segment, and there the kept tokens are listed.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    segments: Vec<Segment>,
    /// As `segments`, for rows that come with a grammar's mask; `None` if the order does not name `allowed`.
    masked_segments: Option<Vec<Segment>>,
    /// Whether the first token of what is left wins, instead of a draw.
    is_greedy: bool,
    /// For each list of ids, its largest.
    largest_ids: Vec<(&'static str, u32)>,
}

/// Edits, then truncations at the temperature in force at their place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Segment {
    pub edits: Vec<Edit>,
    pub truncations: Vec<(Truncation, Temperature)>,
    /// The temperature in force at the end.
    pub temperature: Temperature,
}

impl Segment {
    fn new() -> Self {
        Self { edits: Vec::new(), truncations: Vec::new(), temperature: Temperature::ONE }
    }

    fn has_only_edits(&self) -> bool {
        self.truncations.is_empty() && self.temperature == Temperature::ONE
    }
}

impl Plan {
    /// Checks the parameters and lays the chain out.
    pub fn new(params: &SamplingParams) -> Result<Self, ParamError> {
        let _mode = Standard::enter();
        params.validate()?;
        let order = params.order.clone().unwrap_or_default();
        let segments = |with_mask| lay_out(params, order.stages(), with_mask);
        Ok(Self {
            segments: segments(false),
            masked_segments: order.names(&Stage::Allowed).then(|| segments(true)),
            is_greedy: params.temperature < GREEDY_BELOW,
            largest_ids: largest_ids(params),
        })
    }

    pub(crate) fn segments(&self, with_mask: bool) -> Result<&[Segment], RowError> {
        match &self.masked_segments {
            Some(segments) if with_mask => Ok(segments),
            None if with_mask => Err(RowError::MaskWithoutStage),
            _ => Ok(&self.segments),
        }
    }

    /// Whether the first token of what the chain leaves is taken, instead of a draw.
    pub fn is_greedy(&self) -> bool {
        self.is_greedy
    }

    /// Whether every id of the parameters is a token of such a row.
    pub fn check_vocabulary(&self, vocabulary: usize) -> Result<(), RowError> {
        if vocabulary == 0 {
            return Err(RowError::EmptyRow);
        }
        if vocabulary > MAX_VOCABULARY {
            return Err(RowError::VocabularyTooLarge { vocabulary });
        }
        match self.largest_ids.iter().find(|(_, token)| *token as usize >= vocabulary) {
            Some(&(field, token)) => Err(RowError::OutsideVocabulary { field, token, vocabulary }),
            None => Ok(()),
        }
    }
}

fn lay_out(params: &SamplingParams, stages: &[Stage], with_mask: bool) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut segment = Segment::new();
    for stage in stages.iter().cloned() {
        let edit = match stage {
            Stage::Allowed => Allowed::new(params, with_mask).map(Edit::Allowed),
            Stage::BadWords => BadWords::new(params).map(Edit::BadWords),
            Stage::MinTokens => MinTokens::new(params).map(Edit::MinTokens),
            Stage::LogitBias => LogitBias::new(params).map(Edit::LogitBias),
            Stage::Penalties => Penalties::new(params).map(Edit::Penalties),
            Stage::Temperature => {
                // A greedy chain draws nothing; its truncations see the logits as they are.
                if params.temperature >= GREEDY_BELOW {
                    segment.temperature = segment.temperature.then(params.temperature);
                }
                None
            }
            _ => {
                let truncation = Truncation::new(stage, params);
                segment.truncations.extend(truncation.map(|truncation| (truncation, segment.temperature)));
                None
            }
        };
        if let Some(edit) = edit {
            if !segment.has_only_edits() {
                segments.push(std::mem::replace(&mut segment, Segment::new()));
            }
            segment.edits.push(edit);
        }
    }
    segments.push(segment);
    segments
}

fn largest_ids(params: &SamplingParams) -> Vec<(&'static str, u32)> {
    let largest = |ids: &mut dyn Iterator<Item = u32>| ids.max();
    let lists = [
        ("logit_bias", largest(&mut params.logit_bias.keys().copied())),
        ("allowed_token_ids", largest(&mut params.allowed_token_ids.iter().flatten().copied())),
        ("bad_words_ids", largest(&mut params.bad_words_ids.iter().flatten().copied())),
        ("stop_token_ids", largest(&mut params.stop_token_ids.iter().copied())),
        ("eos_token_id", largest(&mut params.eos_token_id.iter().copied())),
        ("prompt_token_ids", largest(&mut params.prompt_token_ids.iter().copied())),
        ("output_token_ids", largest(&mut params.output_token_ids.iter().copied())),
    ];
    lists.into_iter().filter_map(|(field, id)| id.map(|id| (field, id))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::Order;

    fn plan(params: SamplingParams) -> Plan {
        Plan::new(&params).expect("valid parameters")
    }

    #[test]
    fn idle_stages_are_left_out() {
        let plan = plan(SamplingParams { top_k: -1, logprobs: Some(3), min_tokens: 5, ..Default::default() });
        assert_eq!(plan.segments, [Segment::new()]);
        assert!(!plan.is_greedy());
    }

    #[test]
    fn an_edit_after_a_truncation_or_a_temperature_begins_a_segment() {
        let params =
            SamplingParams { top_k: 3, temperature: 0.5, repetition_penalty: 2.0, ..Default::default() };
        let count = |order: &str| {
            let order: Order = order.parse().expect("a valid order");
            plan(SamplingParams { order: Some(order), ..params.clone() }).segments.len()
        };
        assert_eq!(count("penalties,temperature,top_k"), 1);
        assert_eq!(count("temperature,penalties,top_k"), 2);
        assert_eq!(count("top_k,penalties,temperature"), 2);
        assert_eq!(count("top_k,penalties,temperature,penalties"), 3);
        assert_eq!(count("temperature,logit_bias,penalties,top_k,min_tokens"), 2, "idle edits split nothing");
    }

    #[test]
    fn each_truncation_has_the_temperature_of_its_place() {
        let params = SamplingParams { top_k: 3, top_p: 0.5, temperature: 0.5, ..Default::default() };
        let order = Some("top_k,temperature,top_p,temperature".parse().expect("a valid order"));
        let plan = plan(SamplingParams { order, ..params });
        let temperatures: Vec<_> = plan.segments[0].truncations.iter().map(|(_, t)| t.value).collect();
        assert_eq!(temperatures, [1.0, 0.5]);
        assert_eq!(plan.segments[0].temperature, Temperature { value: 0.25, inverse: 4.0 });
    }

    #[test]
    fn ids_are_checked_against_the_vocabulary() {
        let plan = plan(SamplingParams { allowed_token_ids: Some(vec![3, 9, 2]), ..Default::default() });
        assert_eq!(plan.check_vocabulary(10), Ok(()));
        let error = RowError::OutsideVocabulary { field: "allowed_token_ids", token: 9, vocabulary: 9 };
        assert_eq!(plan.check_vocabulary(9), Err(error));
        assert_eq!(plan.check_vocabulary(0), Err(RowError::EmptyRow));
        let vocabulary = MAX_VOCABULARY + 1;
        assert_eq!(plan.check_vocabulary(vocabulary), Err(RowError::VocabularyTooLarge { vocabulary }));
    }
}
