//! The plan: parameters, checked once and laid out as a draw reads them. It is the only interpretation of the
//! parameters: the CPU's draw, the GPU's and every front end read it.

use crate::error::{ParamError, RowError};
use crate::kernels::bend::Bend;
use crate::numeric::float_mode::Standard;
use crate::numeric::mass::MAX_VOCABULARY;
use crate::params::chain::Stage;
use crate::params::custom::{self, Custom};
use crate::params::{GREEDY_BELOW, KeptMode, SamplingParams};
use crate::stages::edit::{Edit, smoothing};
use crate::stages::temperature::Heat;
use crate::stages::truncate::Truncation;

/// A validated chain. Stages whose parameters do nothing are not in it.
///
/// The chain is divided into segments. A segment begins with edits of single tokens, which every holder of a
/// part of the row makes on its own. Then come operations that need the whole row, which the draw carries out
/// by asking questions: temperatures and truncations, and edits that depend on all logits. An edit after an
/// operation begins the next segment, where what the operations left is made part of the row.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    segments: Vec<Segment>,
    /// As `segments`, for rows that come with a grammar's mask; `None` if the order does not name `allowed`.
    masked_segments: Option<Vec<Segment>>,
    /// Whether the first token of what is left wins, instead of a draw.
    is_greedy: bool,
    /// For each list of ids but the prompt and the output, its largest.
    largest_ids: Vec<(&'static str, u32)>,
    /// The largest id of the prompt as it was given.
    largest_prompt: Option<u32>,
    /// The largest id of the output as it was given.
    largest_output: Option<u32>,
}

/// Edits of single tokens, then operations on the whole row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Segment {
    /// The edits of single tokens, in the order of the chain. They are made before the operations.
    pub edits: Vec<Edit>,
    /// The operations on the whole row, in the order of the chain.
    pub operations: Vec<Operation>,
}

/// A stage that needs the whole row, which the draw carries out by asking questions.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// A temperature.
    Heat(Heat),
    /// A truncation with its stage: several stages share one form.
    Truncate(Stage, Truncation),
    /// Smoothing.
    Smooth(Bend),
    /// A user's own stage.
    Custom(Custom),
}

impl Operation {
    /// The stage it belongs to.
    pub fn stage(&self) -> Stage {
        match self {
            Operation::Heat(_) => Stage::Temperature,
            Operation::Truncate(stage, _) => stage.clone(),
            Operation::Smooth(_) => Stage::Smoothing,
            Operation::Custom(custom) => Stage::Custom(custom.clone()),
        }
    }

    /// Whether the first token of the order is what it was, whatever the row.
    pub(crate) fn keeps_the_first(&self) -> bool {
        matches!(self, Operation::Truncate(_, Truncation::Prefix(_)))
    }

    /// Whether it changes logits, and so needs what the operations before it left made part of the row.
    fn is_edit(&self) -> bool {
        match self {
            Operation::Smooth(_) => true,
            Operation::Custom(custom) => matches!(custom.kind, custom::Kind::Edit(_)),
            Operation::Heat(_) | Operation::Truncate(..) => false,
        }
    }
}

/// How finely the chain is divided. The drawn tokens are the same: an edit in a later segment finds what it
/// would find in the same segment.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Grain {
    /// As few segments as can be.
    Coarse,
    /// One segment per edit, and one before all, so that one can look between them. Bans are an edit where
    /// there are any.
    EachEdit { has_bans: bool },
}

impl Plan {
    /// Checks the parameters and lays the chain out.
    pub fn new(params: &SamplingParams) -> Result<Self, ParamError> {
        let _mode = Standard::enter();
        params.validate()?;
        if !params.bad_words.is_empty() {
            let message = "words need a tokenizer, which a draw does not have; give bad_words_ids";
            return Err(ParamError::new("bad_words", message));
        }
        let order = params.order.clone().unwrap_or_default();
        let segments = |with_mask| lay_out(params, order.stages(), with_mask, Grain::Coarse);
        let unmasked = segments(false);
        let masked = order.names(&Stage::Allowed).then(|| segments(true));
        let are_prefixes = keep_a_prefix(&unmasked) && masked.as_deref().is_none_or(keep_a_prefix);
        if params.kept == KeptMode::Summary && !are_prefixes {
            let message = "a summary needs a chain that keeps a prefix of the order: without typical, XTC and stages of \
                           your own, and without edits after a truncation or a temperature; use ids";
            return Err(ParamError::new("kept", message));
        }
        Ok(Self {
            segments: unmasked,
            masked_segments: masked,
            is_greedy: is_greedy(params),
            largest_ids: largest_ids(params),
            largest_prompt: params.prompt_token_ids.iter().max().copied(),
            largest_output: params.output_token_ids.iter().max().copied(),
        })
    }

    /// The chain divided so that one can look between any two stages. The parameters are those of a plan.
    pub(crate) fn finely(params: &SamplingParams, with_mask: bool, has_bans: bool) -> Vec<Segment> {
        let order = params.order.clone().unwrap_or_default();
        lay_out(params, order.stages(), with_mask, Grain::EachEdit { has_bans })
    }

    /// The segments of the chain; `with_mask`: for rows that come with a grammar's mask. An error if the
    /// order does not name the stage that applies the mask.
    pub fn segments(&self, with_mask: bool) -> Result<&[Segment], RowError> {
        match &self.masked_segments {
            Some(segments) if with_mask => Ok(segments),
            None if with_mask => Err(RowError::MaskWithoutStage),
            _ => Ok(&self.segments),
        }
    }

    /// Whether the first token of what the chain leaves is taken, instead of a draw. With a range of
    /// temperatures the entropy of the row decides, and this is false.
    pub fn is_greedy(&self) -> bool {
        self.is_greedy
    }

    /// Whether every id of the parameters is a token of such a row.
    pub fn check_vocabulary(&self, vocabulary: usize) -> Result<(), RowError> {
        self.check_ids(vocabulary, self.largest_prompt, self.largest_output)
    }

    /// As [`Plan::check_vocabulary`], where the largest ids of the prompt and of the output have become others.
    pub(crate) fn check_ids(
        &self,
        vocabulary: usize,
        largest_prompt: Option<u32>,
        largest_output: Option<u32>,
    ) -> Result<(), RowError> {
        if vocabulary == 0 {
            return Err(RowError::EmptyRow);
        }
        if vocabulary > MAX_VOCABULARY {
            return Err(RowError::VocabularyTooLarge { vocabulary });
        }
        let prompt = largest_prompt.map(|token| ("prompt_token_ids", token));
        let output = largest_output.map(|token| ("output_token_ids", token));
        match self
            .largest_ids
            .iter()
            .copied()
            .chain(prompt)
            .chain(output)
            .find(|(_, token)| *token as usize >= vocabulary)
        {
            Some((field, token)) => Err(RowError::OutsideVocabulary { field, token, vocabulary }),
            None => Ok(()),
        }
    }
}

/// Whether what a chain keeps is a prefix of the order, once the edits are made with which it begins.
pub fn keep_a_prefix(segments: &[Segment]) -> bool {
    let [Segment { operations, .. }] = segments else { return false };
    operations.iter().skip_while(|operation| matches!(operation, Operation::Smooth(_))).all(|operation| {
        matches!(
            operation,
            Operation::Heat(_) | Operation::Truncate(_, Truncation::Prefix(_) | Truncation::Mirostat(_))
        )
    })
}

fn lay_out(params: &SamplingParams, stages: &[Stage], with_mask: bool, grain: Grain) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut segment = Segment::default();
    match grain {
        Grain::Coarse => segment.edits.push(Edit::Bans),
        Grain::EachEdit { has_bans: true } => {
            segments.push(Segment::default());
            segment.edits.push(Edit::Bans);
        }
        Grain::EachEdit { has_bans: false } => {}
    }
    let is_greedy = is_greedy(params);
    for (i, stage) in stages.iter().enumerate() {
        let edit = Edit::new(stage, params, with_mask);
        let operation = match stage {
            _ if edit.is_some() => None,
            // A greedy chain draws nothing; its truncations see the logits as they are.
            Stage::Temperature => Heat::new(params).filter(|_| !is_greedy).map(Operation::Heat),
            Stage::Smoothing => smoothing::bend(params).map(Operation::Smooth),
            Stage::Custom(custom) => Some(Operation::Custom(custom.clone())),
            _ => {
                let index = stages[..i].iter().filter(|other| *other == stage).count() as u32;
                Truncation::new(stage, params, index)
                    .map(|truncation| Operation::Truncate(stage.clone(), truncation))
            }
        };
        let is_divided = match grain {
            Grain::Coarse => {
                !segment.operations.is_empty() && (edit.is_some() || operation.iter().any(Operation::is_edit))
            }
            Grain::EachEdit { .. } => edit.is_some() || operation.iter().any(Operation::is_edit),
        };
        if is_divided {
            segments.push(std::mem::take(&mut segment));
        }
        segment.edits.extend(edit);
        segment.operations.extend(operation);
    }
    segments.push(segment);
    segments
}

/// With a range, the entropy decides at each draw.
fn is_greedy(params: &SamplingParams) -> bool {
    params.temperature < GREEDY_BELOW && params.dynatemp_range == 0.0
}

fn largest_ids(params: &SamplingParams) -> Vec<(&'static str, u32)> {
    let largest = |ids: &mut dyn Iterator<Item = u32>| ids.max();
    let lists = [
        ("logit_bias", largest(&mut params.logit_bias.keys().copied())),
        ("allowed_token_ids", largest(&mut params.allowed_token_ids.iter().flatten().copied())),
        ("bad_words_ids", largest(&mut params.bad_words_ids.iter().flatten().copied())),
        ("stop_token_ids", largest(&mut params.stop_token_ids.iter().copied())),
        ("eos_token_id", largest(&mut params.eos_token_id.iter().copied())),
        ("xtc_protected_token_ids", largest(&mut params.xtc_protected_token_ids.iter().copied())),
        ("dry_sequence_breakers", largest(&mut params.dry_sequence_breakers.iter().flatten().copied())),
    ];
    lists.into_iter().filter_map(|(field, id)| id.map(|id| (field, id))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::chain::Order;

    fn plan(params: SamplingParams) -> Plan {
        Plan::new(&params).expect("valid parameters")
    }

    #[test]
    fn idle_stages_are_left_out() {
        let plan = plan(SamplingParams { top_k: -1, logprobs: Some(3), min_tokens: 5, ..Default::default() });
        assert_eq!(plan.segments, [Segment { edits: vec![Edit::Bans], operations: Vec::new() }]);
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
    fn operations_come_in_the_order_of_their_stages() {
        let params = SamplingParams { top_k: 3, top_p: 0.5, temperature: 0.5, ..Default::default() };
        let order = Some("top_k,temperature,top_p,temperature".parse().expect("a valid order"));
        let plan = plan(SamplingParams { order, ..params });
        let stages: Vec<_> = plan.segments[0].operations.iter().map(Operation::stage).collect();
        use Stage::*;
        assert_eq!(stages, [TopK, Temperature, TopP, Temperature]);
    }

    #[test]
    fn a_fine_plan_has_a_segment_for_each_edit() {
        let params = SamplingParams {
            logit_bias: [(1, 1.0)].into(),
            repetition_penalty: 2.0,
            smoothing_factor: 0.5,
            temperature: 0.5,
            top_k: 3,
            ..Default::default()
        };
        let counts = |segments: &[Segment]| -> Vec<_> {
            segments.iter().map(|segment| (segment.edits.len(), segment.operations.len())).collect()
        };
        assert_eq!(counts(&plan(params.clone()).segments), [(3, 3)]);
        assert_eq!(counts(&Plan::finely(&params, false, false)), [(0, 0), (1, 0), (1, 0), (0, 3)]);
        assert_eq!(counts(&Plan::finely(&params, false, true)), [(0, 0), (1, 0), (1, 0), (1, 0), (0, 3)]);
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
