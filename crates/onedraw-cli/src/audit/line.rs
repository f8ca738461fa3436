//! One line of a trace under audit.

use anyhow::{Context, Result, anyhow, bail};
use onedraw::verdict::Verdict;
use onedraw::{Constraint, ConstraintText};
use onedraw_grammar::Grammar;
use onedraw_lm::LanguageModel;
use onedraw_lm::audit::{AuditError, Auditor, TextAudit};
use onedraw_lm::trace::{NotReplayable, Trace};
use serde_json::{Value, json};

use crate::audit::counterpart::Counterparts;
use crate::flags::constraint::vocabulary;
use crate::flags::contrast::with_counterpart;
use crate::model::{Model, short};

/// What came of a line.
pub enum Audited {
    Text(TextAudit),
    /// Nothing can be said of it, and why.
    NotReplayable {
        tokens: usize,
        why: NotReplayable,
    },
    /// The line is bad.
    Bad(String),
}

/// How lines are audited.
pub struct Settings<'a> {
    /// The model that is said to have written the texts.
    pub model: &'a Model,
    pub counterparts: Counterparts<'a>,
    /// Whether the hashes do not matter.
    pub any_model: bool,
    pub false_alarms: f64,
    /// The grammar of the last constraint: the texts of a request have the same.
    pub grammar: Option<(ConstraintText, Grammar)>,
}

impl Settings<'_> {
    /// Runs the model over a text.
    pub fn audit(&mut self, trace: &Trace) -> Audited {
        let tokens = trace.output_token_ids.len();
        match self.try_audit(trace) {
            Ok(audit) => Audited::Text(audit),
            Err(error) => match error.downcast::<AuditError>() {
                Ok(AuditError::NotReplayable(why)) => Audited::NotReplayable { tokens, why },
                Ok(other) => Audited::Bad(other.to_string()),
                Err(other) => Audited::Bad(format!("{other:#}")),
            },
        }
    }

    fn try_audit(&mut self, trace: &Trace) -> Result<TextAudit> {
        let model = self.model;
        let is_other = |claimed: &str, own: &str| !self.any_model && claimed != own;
        if is_other(&trace.model, model.llama.sha256()) {
            bail!(
                "was written with another model: its weights have the SHA-256 {}, these {}",
                short(&trace.model),
                short(model.llama.sha256())
            );
        }
        if is_other(&trace.tokenizer, model.tokenizer.sha256()) {
            bail!(
                "was written with another tokenizer: its SHA-256 is {}, this one's {}",
                short(&trace.tokenizer),
                short(model.tokenizer.sha256())
            );
        }
        if let Some(why) = trace.not_replayable {
            return Err(AuditError::NotReplayable(why).into());
        }
        let constraint = trace.constraint.as_ref().map(|text| self.constraint(text)).transpose()?;
        let counterpart = self.counterparts.of(trace.contrast.as_ref(), trace.prompt_token_ids.len())?;
        with_counterpart!(&model.llama, counterpart, |with| self.audit_with(with, trace, constraint))
    }

    fn constraint(&mut self, text: &ConstraintText) -> Result<Box<dyn Constraint>> {
        if self.grammar.as_ref().is_none_or(|(known, _)| known != text) {
            let grammar = Grammar::from_text(&vocabulary(self.model, &text.eos_token_ids)?, text);
            let grammar = grammar.map_err(|error| anyhow!("`constraint`: {error}"))?;
            self.grammar = Some((text.clone(), grammar));
        }
        let grammar = self.grammar.as_ref().map(|(_, grammar)| grammar.start());
        Ok(Box::new(grammar.context("a grammar was made")?))
    }

    /// With the model, or the model and what it is contrasted with.
    fn audit_with<M: LanguageModel>(
        &self,
        model: &M,
        trace: &Trace,
        constraint: Option<Box<dyn Constraint>>,
    ) -> Result<TextAudit> {
        let auditor = Auditor::new(model, &*self.model.tokenizer).false_alarms(self.false_alarms);
        Ok(auditor.audit(trace, constraint)?)
    }
}

/// The verdict of a text; `None` if there was nothing to compare.
pub fn verdict(audit: &TextAudit) -> Option<Verdict> {
    let verdict = audit.judgement.verdict;
    (!audit.tokens.is_empty() || verdict == Verdict::Other).then_some(verdict)
}

/// What a verdict means.
pub fn meaning(verdict: Option<Verdict>) -> &'static str {
    match verdict {
        Some(Verdict::Same) => "same model and sampler",
        Some(Verdict::Arithmetic) => "same model with other arithmetic",
        Some(Verdict::Other) => "something else",
        None => "not checked: no token was drawn",
    }
}

impl Audited {
    /// The line of JSON, at that rate of false alarms. Distances that are infinite, because a token is masked, are null.
    pub fn json(&self, line: usize, false_alarms: f64) -> Value {
        match self {
            Self::Bad(error) => json!({ "line": line, "error": error }),
            Self::NotReplayable { tokens, why } => {
                json!({
                    "line": line, "tokens": tokens, "equal": null, "verdict": null, "positions": [],
                    "not_replayable": why,
                })
            }
            Self::Text(audit) => {
                let judgement = &audit.judgement;
                let mut value = json!({
                    "line": line,
                    "tokens": audit.tokens.len(),
                    "equal": audit.equal(),
                    "verdict": verdict(audit),
                    "positions": audit.places(),
                    "chance": judgement.chance,
                    "false_alarms": false_alarms,
                    "gaps": gaps(audit),
                    "outside": audit.tokens.iter().filter(|token| !token.audit.is_kept).count(),
                    "forced": audit.forced,
                });
                if let Some(place) = audit.left_constraint {
                    value["left_constraint"] = place.into();
                }
                if let Some(diagnosis) = &audit.diagnosis {
                    value["diagnosis"] = json!(diagnosis);
                }
                value
            }
        }
    }
}

/// Each token that is not the drawn one.
fn gaps(audit: &TextAudit) -> Vec<Value> {
    let differ = audit.tokens.iter().filter(|token| !token.audit.is_drawn());
    let entry = |token: &onedraw_lm::audit::Checked| {
        let onedraw::Audit { token: claimed, drawn, gap, is_kept, outside, distance, .. } = token.audit;
        json!({
            "position": token.place, "leg": token.leg, "token": claimed, "drawn": drawn, "gap": gap,
            "is_kept": is_kept, "outside": outside, "distance": distance,
        })
    };
    differ.map(entry).collect()
}
