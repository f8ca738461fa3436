//! Audits: whether a model and a sampler wrote the text of a [trace](crate::trace).
//!
//! The model runs over the whole text, many positions in a pass, and at each position the claimed token is
//! compared with the one that the logits, the parameters, the seed and the tokens before it draw. What the
//! comparisons say in sum is [`onedraw::verdict`].
//!
//! ```
//! use onedraw::SamplingParams;
//! use onedraw::verdict::Verdict;
//! use onedraw_lm::audit::Auditor;
//! use onedraw_lm::trace::Lines;
//! use onedraw_lm::{Generator, Tracer, stories};
//!
//! let (model, tokenizer) = (stories::model()?, stories::tokenizer()?);
//! let mut file = Vec::new();
//! let tracer = Tracer::new(&mut file, model.sha256(), tokenizer.sha256());
//! let mut generator = Generator::new(&model, &tokenizer).trace(tracer);
//! generator.add(&tokenizer.encode("Once upon a time")?, SamplingParams { seed: Some(7), ..Default::default() })?;
//! generator.finish()?;
//! drop(generator);
//!
//! for line in Lines::new(&file[..]) {
//!     let (_, trace) = line?;
//!     let audit = Auditor::new(&model, &tokenizer).audit(&trace, None)?;
//!     assert_eq!((audit.judgement.verdict, audit.equal()), (Verdict::Same, 16));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod diagnosis;
mod error;
mod replay;

use onedraw::verdict::{FALSE_ALARMS, HONEST, Judgement, Verdict, check_false_alarms, judge_against};
use onedraw::{Audit, Constraint, KeptMode, SamplingParams};

pub use diagnosis::Diagnosis;
pub use error::AuditError;
pub use replay::Checked;

use crate::audit::diagnosis::Search;
use crate::audit::replay::{MOST_LOGITS, Replay};
use crate::model::{Asks, LanguageModel, Run, Sequence, Vocabulary, Wanted};
use crate::trace::{Leg, Trace};

/// How many positions a pass takes at most: enough that the weights are read seldom.
const CHUNK: usize = 256;

/// Runs a model over texts and compares their tokens with those that are drawn.
pub struct Auditor<'a, M: LanguageModel> {
    model: &'a M,
    vocabulary: &'a dyn Vocabulary,
    false_alarms: f64,
}

/// The tokens of a text beside those that are drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct TextAudit {
    /// The claimed tokens that were drawn, in the order of time.
    pub tokens: Vec<Checked>,
    /// How many tokens a constraint forced.
    pub forced: usize,
    /// Where the text leaves its constraint, if it does: nothing after that place was compared.
    pub left_constraint: Option<usize>,
    /// What the comparisons say in sum.
    pub judgement: Judgement,
    /// Whether the gaps alone say that something else wrote the text.
    pub is_far: bool,
    /// The one parameter whose change explains the tokens better than the trace does, if there is one.
    pub diagnosis: Option<Diagnosis>,
}

impl TextAudit {
    /// How many tokens are those that are drawn.
    pub fn equal(&self) -> usize {
        self.tokens.iter().filter(|token| token.audit.is_drawn()).count()
    }

    /// The places of the tokens that say that something else wrote the text.
    pub fn places(&self) -> Vec<usize> {
        self.judgement.places.iter().map(|&token| self.tokens[token].place).collect()
    }
}

impl<'a, M: LanguageModel> Auditor<'a, M> {
    /// Audits texts of a model.
    pub fn new(model: &'a M, vocabulary: &'a dyn Vocabulary) -> Self {
        Self { model, vocabulary, false_alarms: FALSE_ALARMS }
    }

    /// Sets the rate at which honest texts in other arithmetic may be called
    /// [`Verdict::Other`].
    pub fn false_alarms(mut self, rate: f64) -> Self {
        self.false_alarms = rate;
        self
    }

    /// Audits a text. A trace with a constraint needs it, before the first token.
    pub fn audit(
        &self,
        trace: &Trace,
        constraint: Option<Box<dyn Constraint>>,
    ) -> Result<TextAudit, AuditError> {
        check_false_alarms(self.false_alarms)?;
        if let Some(why) = trace.not_replayable {
            return Err(AuditError::NotReplayable(why));
        }
        if constraint.is_some() != trace.constraint.is_some() {
            return Err(AuditError::Constraint);
        }
        trace.check().map_err(AuditError::Malformed)?;
        let legs = trace.legs().map_err(AuditError::Malformed)?;
        let malformed = |message: &str| Err(AuditError::Malformed(message.to_owned()));
        if legs.iter().skip(1).any(|leg| leg.is_forced.contains(&true)) {
            return malformed(
                "tokens are marked as forced after text was taken back, where nothing is forced",
            );
        }
        if constraint.is_none() && legs.iter().any(|leg| leg.is_forced.contains(&true)) {
            return malformed("tokens are marked as forced, and there is no constraint that forces them");
        }
        self.check(trace, &legs)?;
        let params = drawn_with(trace);
        let mut replay = Replay::new(&params, trace.sequence, constraint, self.vocabulary)?;
        self.model.within(|| self.run(trace, &legs, &mut replay))?;
        replay.check_end(trace, self.model.context())?;
        let Replay { checked, rows, forced, left_constraint, .. } = replay;
        let audits: Vec<Audit> = checked.iter().map(|token| token.audit).collect();
        // Two tests, each with half of the false alarms: gaps that are too many or too large, and another value of a
        // parameter that explains the tokens better.
        let rate = self.false_alarms / 2.0;
        let honest = honest(trace);
        let mut judgement = judge_against(&honest, &audits, rate)?;
        if let Some(place) = left_constraint {
            // No arithmetic writes a token that the constraint forbids.
            judgement.verdict = Verdict::Other;
            judgement.chance = 0.0;
            let last = checked.iter().rposition(|token| token.place <= place);
            judgement.places = last.into_iter().collect();
        }
        let is_far = judgement.verdict == Verdict::Other;
        // Masks and what was taken back are not held.
        let is_plain = legs.len() == 1 && trace.constraint.is_none() && forced == 0;
        let diagnosis = is_plain.then(|| {
            let rows = rows.chunks_exact(self.model.vocabulary().max(1));
            let is_measured = trace.contrast.is_none();
            let search =
                Search { params: &params, sequence: trace.sequence, honest: &honest, false_alarms: rate };
            search.run(rows, &audits, is_far, is_measured)
        });
        let diagnosis = diagnosis.flatten();
        if let Some(diagnosis) = diagnosis.as_ref().filter(|_| !is_far) {
            judgement.verdict = Verdict::Other;
            judgement.chance = judgement.chance.min(diagnosis.chance);
            judgement.places = diagnosis.tokens.clone();
        }
        // Of either of the two tests.
        judgement.chance = f64::min(1.0, 2.0 * judgement.chance);
        Ok(TextAudit { tokens: checked, forced, left_constraint, judgement, is_far, diagnosis })
    }

    /// Checks that the text can be a text of this model.
    fn check(&self, trace: &Trace, legs: &[Leg]) -> Result<(), AuditError> {
        let (vocabulary, context) = (self.model.vocabulary(), self.model.context());
        let before = trace.prompt_token_ids.len() + trace.params.output_token_ids.len();
        let tokens = [&trace.prompt_token_ids, &trace.params.output_token_ids];
        let tokens = tokens.into_iter().chain(legs.iter().map(|leg| &leg.tokens)).flatten();
        if let Some(&token) = tokens.into_iter().find(|&&token| token as usize >= vocabulary) {
            return Err(AuditError::OutsideVocabulary { token, vocabulary });
        }
        // The last token is drawn after all others were read.
        let length = legs.iter().map(|leg| before + leg.start + leg.tokens.len()).max().unwrap_or(before);
        if length > context + 1 {
            return Err(AuditError::TooLong { length, context });
        }
        Ok(())
    }

    fn run(&self, trace: &Trace, legs: &[Leg], replay: &mut Replay<'_>) -> Result<(), AuditError> {
        let vocabulary = self.model.vocabulary();
        let chunk = (MOST_LOGITS / vocabulary.max(1)).clamp(1, CHUNK);
        let given = trace.params.output_token_ids.len();
        let mut tokens = [&trace.prompt_token_ids[..], &trace.params.output_token_ids].concat();
        let base = tokens.len();
        let mut memory = self.model.start();
        for (number, leg) in legs.iter().enumerate() {
            if number > 0 {
                replay.take_back(given, leg.start, tokens.split_off(base + leg.start))?;
            }
            tokens.extend(&leg.tokens);
            // The row of a token is that of the token before it.
            let first = base + leg.start - 1;
            memory.cut(first.min(memory.len()));
            while replay.left_constraint.is_none() && memory.len() + 1 < tokens.len() {
                let start = memory.len();
                let end = (start + chunk).min(tokens.len() - 1);
                let asks = Asks { logits: Wanted::Tail(end - start.max(first).min(end)), ..Asks::default() };
                let run = Run { asks, ..Run::line(&mut memory, &tokens[start..end]) };
                let answers = self.model.forward(&mut [run])?;
                let logits = answers.into_iter().next().map(|answer| answer.logits).unwrap_or_default();
                let place = start.max(first) - first;
                for (row, place) in logits.chunks_exact(vocabulary).zip(place..) {
                    replay.check(row, number, leg, place)?;
                }
            }
        }
        Ok(())
    }
}

/// How often other arithmetic, at most, makes a token of the text differ by a distance or more.
///
/// A contrast amplifies the differences of the logits, and puts tokens that it finds implausible far below the others. So
/// only the number of unequal tokens counts there, and that may be as much larger as the contrast amplifies.
fn honest(trace: &Trace) -> Vec<(f64, f64)> {
    match &trace.contrast {
        None => HONEST.to_vec(),
        Some(contrast) => vec![(0.0, f64::min(0.5, HONEST[0].1 * contrast.amplification()))],
    }
}

/// The parameters that tokens were drawn with, without what is only reported.
fn drawn_with(trace: &Trace) -> SamplingParams {
    SamplingParams {
        prompt_token_ids: trace.prompt_token_ids.clone(),
        logprobs: None,
        prompt_logprobs: None,
        probability: false,
        kept: KeptMode::None,
        ..trace.params.clone()
    }
}
