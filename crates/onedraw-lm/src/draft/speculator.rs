//! The drafters of a generator, with the policy that decides how much they guess.

use std::time::Duration;

use onedraw::Batch;
use onedraw::speculate::Verdict;

use crate::draft::ahead::{Plan, Text};
use crate::draft::drafter::{AnyDrafter, AnyMemory, Drafter};
use crate::draft::policy::{PassResult, Policy};
use crate::draft::rounds::{Drafts, draft};
use crate::draft::settings::{Guessed, PassLog, Speculation};
use crate::error::ModelError;
use crate::model::LanguageModel;

/// A drafter, and what decides how much it guesses.
pub(crate) struct Speculator<'a, M: LanguageModel> {
    drafter: AnyDrafter<'a, M>,
    pub settings: Speculation,
    policy: Policy,
    pub guessed: Guessed,
    /// The passes so far, where somebody wants to read them.
    pub log: Option<Vec<PassLog>>,
}

impl<'a, M: LanguageModel> Speculator<'a, M> {
    pub(crate) fn new(
        drafter: AnyDrafter<'a, M>,
        settings: Speculation,
        target: &M,
    ) -> Result<Self, ModelError> {
        settings.check(target.context())?;
        Ok(Self { drafter, settings, policy: Policy::new(), guessed: Guessed::default(), log: None })
    }

    /// What the drafter remembers of a new text.
    pub(crate) fn start(&self) -> AnyMemory {
        self.drafter.start()
    }

    /// The layers whose states the drafter wants to see.
    pub(crate) fn states(&self) -> &[usize] {
        self.drafter.states()
    }

    /// Shows the drafter states of a text that the target has read.
    pub(crate) fn see(&self, memory: &mut AnyMemory, first: usize, states: &[Vec<f32>]) {
        self.drafter.see(memory, first, states);
    }

    /// Whether the next pass is to have guesses.
    pub(crate) fn is_drafting(&self) -> bool {
        !self.settings.is_adaptive() || self.policy.is_drafting()
    }

    /// Lets the drafter guess for texts, for a pass of `plain` positions without guesses.
    pub(crate) fn draft(
        &mut self,
        target: &M,
        batch: &mut Batch,
        plain: usize,
        texts: Vec<(&mut AnyMemory, Text<'_, M>)>,
    ) -> Result<Drafts, ModelError> {
        let drafts = draft(&self.drafter, target, &self.policy, self.settings, batch, plain, texts)?;
        self.policy.learn_rounds(&drafts.planned.rounds);
        Ok(drafts)
    }

    /// Learns the time of a pass, in a step in which somebody guessed or nobody did.
    pub(crate) fn learn_pass_time(&mut self, positions: usize, was_drafted: bool, time: Duration) {
        self.policy.learn_time(positions, was_drafted, time);
    }

    /// Learns which guesses of a plan were accepted.
    pub(crate) fn learn_verdict(&mut self, plan: &Plan, verdict: &Verdict) {
        let tree = &plan.draft.tree;
        for (node, (&parent, &class)) in tree.parents().iter().zip(&plan.classes).enumerate() {
            if parent.is_none_or(|parent| verdict.path.contains(&parent)) {
                self.policy.chances.learn(class, verdict.path.contains(&node));
            }
        }
        self.guessed.count(tree, &verdict.path, verdict.sampled.len());
    }

    /// Learns what a pass gained.
    pub(crate) fn learn_pass(&mut self, pass: &PassResult) {
        self.policy.learn_pass(pass);
        self.guessed.rests = self.policy.purse.rests();
        if let Some(log) = &mut self.log {
            log.push(PassLog {
                texts: pass.texts,
                guesses: pass.planned.guesses,
                expected: pass.planned.worth,
                tokens: pass.tokens,
                time: pass.time,
                plain_time: Duration::from_secs_f64(self.policy.plain_time(pass)),
                purse: self.policy.purse.held(),
            });
        }
    }
}
