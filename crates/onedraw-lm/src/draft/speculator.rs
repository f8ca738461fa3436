//! The drafters of a generator, with the policy that decides how much they guess.

use std::time::Duration;

use onedraw::Batch;
use onedraw::speculate::Verdict;

use crate::draft::ahead::{Ahead, Plan, Text};
use crate::draft::drafter::Drafter;
use crate::draft::policy::{PassResult, Policy};
use crate::draft::settings::{Guessed, PassLog, Speculation};
use crate::error::ModelError;
use crate::model::LanguageModel;

/// Makes a drafter for each text, and decides how much they guess.
pub(crate) struct Speculator<'a, M: LanguageModel> {
    /// The drafter that every text gets a fork of.
    first: Box<dyn Drafter<'a, M> + 'a>,
    pub settings: Speculation,
    policy: Policy,
    pub guessed: Guessed,
    /// The passes so far, where somebody wants to read them.
    pub log: Option<Vec<PassLog>>,
}

impl<'a, M: LanguageModel> Speculator<'a, M> {
    pub(crate) fn new(
        drafter: Box<dyn Drafter<'a, M> + 'a>,
        settings: Speculation,
        target: &M,
    ) -> Result<Self, ModelError> {
        settings.check(target.context())?;
        Ok(Self { first: drafter, settings, policy: Policy::new(), guessed: Guessed::default(), log: None })
    }

    /// A drafter for a new text.
    pub(crate) fn drafter(&self) -> Box<dyn Drafter<'a, M> + 'a> {
        self.first.fork()
    }

    /// Whether the next pass is to have guesses.
    pub(crate) fn is_drafting(&self) -> bool {
        !self.settings.is_adaptive() || self.policy.is_drafting()
    }

    /// Lets the drafter of a text guess.
    pub(crate) fn plan(
        &mut self,
        drafter: &mut (dyn Drafter<'a, M> + 'a),
        target: &M,
        batch: &mut Batch,
        text: Text<'_, M>,
    ) -> Result<Plan, ModelError> {
        let mut ahead = Ahead::new(target, batch, &self.policy, self.settings, text);
        if ahead.depth() == 0 {
            return Ok(Plan::default());
        }
        drafter.guess(&mut ahead)?;
        let plan = ahead.plan();
        self.policy.learn_expansions(plan.expansions, plan.times);
        Ok(plan)
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
                guesses: pass.positions - pass.plain,
                expected: pass.expected,
                tokens: pass.tokens,
                time: pass.time,
                plain_time: Duration::from_secs_f64(self.policy.plain_time(pass)),
                purse: self.policy.purse.held(),
            });
        }
    }
}

/// The guesses for all texts of a pass.
#[derive(Clone, Copy, Default)]
pub(crate) struct Planned {
    pub expansions: usize,
    pub guesses: usize,
    /// How many of the guesses are expected to be accepted.
    pub worth: f64,
}

impl Planned {
    pub(crate) fn of(plans: &[Plan]) -> Self {
        Self {
            expansions: plans.iter().map(|plan| plan.expansions).sum(),
            guesses: plans.iter().map(|plan| plan.draft.tree.len()).sum(),
            worth: plans.iter().map(|plan| plan.worth).sum(),
        }
    }
}
