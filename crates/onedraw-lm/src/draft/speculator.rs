//! The drafters of a generator, with the policy that decides how much they guess.

use std::time::Duration;

use onedraw::clock::Instant;

use onedraw::Batch;
use onedraw::speculate::Verdict;

use crate::draft::ahead::{Ahead, Plan, Text};
use crate::draft::drafter::Drafter;
use crate::draft::policy::{PassResult, Policy};
use crate::draft::settings::{Guessed, Speculation};
use crate::error::ModelError;
use crate::model::{Asks, LanguageModel, Run, Sequence, Wanted};

/// Makes a drafter for each text, and decides how much they guess.
pub(crate) struct Speculator<'a, M: LanguageModel> {
    /// The drafter that every text gets a fork of.
    first: Box<dyn Drafter<'a, M> + 'a>,
    pub settings: Speculation,
    policy: Policy,
    pub guessed: Guessed,
}

impl<'a, M: LanguageModel> Speculator<'a, M> {
    pub(crate) fn new(
        drafter: Box<dyn Drafter<'a, M> + 'a>,
        settings: Speculation,
        target: &M,
    ) -> Result<Self, ModelError> {
        settings.check(target.context())?;
        Ok(Self { first: drafter, settings, policy: Policy::new(), guessed: Guessed::default() })
    }

    /// A drafter for a new text.
    pub(crate) fn drafter(&self) -> Box<dyn Drafter<'a, M> + 'a> {
        self.first.fork()
    }

    /// Whether the next pass is to have guesses.
    pub(crate) fn is_drafting(&mut self) -> bool {
        !self.settings.is_adaptive() || self.policy.is_drafting()
    }

    /// Measures, once, what passes of several positions cost, on a copy of what the target remembers of a
    /// text.
    pub(crate) fn measure(&mut self, target: &M, memory: &M::Sequence, token: u32) -> Result<(), ModelError> {
        /// Plain decoding and about as many guesses as ever pay; costs are interpolated between these.
        const POSITIONS: [usize; 4] = [1, 2, 4, 8];
        /// The shortest time counts: the other was interrupted, or found its weights far from the processor.
        const ROUNDS: usize = 2;
        if !self.policy.costs.are_unknown() || !self.settings.is_adaptive() {
            return Ok(());
        }
        let asks = Asks { logits: Wanted::All, ..Asks::default() };
        let time = |positions: usize| {
            let mut memory = memory.clone();
            let tokens = vec![token; positions];
            let begun = Instant::now();
            target.forward(&mut [Run { asks, ..Run::line(&mut memory, &tokens) }])?;
            Ok::<_, ModelError>(begun.elapsed())
        };
        let room = target.context() - memory.len();
        let mut costs = Vec::new();
        for positions in POSITIONS.into_iter().filter(|&positions| positions <= room) {
            costs.push((positions, Duration::MAX));
        }
        if costs.len() < 2 {
            return Ok(());
        }
        for _ in 0..ROUNDS {
            for (positions, shortest) in &mut costs {
                *shortest = time(*positions)?.min(*shortest);
            }
        }
        self.policy.costs.set(&costs);
        Ok(())
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

    /// Learns the time of a pass.
    pub(crate) fn learn_pass_time(&mut self, positions: usize, time: Duration) {
        self.policy.costs.learn(positions, time);
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
    }
}

/// The guesses for all texts of a pass.
#[derive(Clone, Copy, Default)]
pub(crate) struct Planned {
    pub expansions: usize,
    pub guesses: usize,
}

impl Planned {
    pub(crate) fn of(plans: &[Plan]) -> Self {
        let expansions = plans.iter().map(|plan| plan.expansions).sum();
        Self { expansions, guesses: plans.iter().map(|plan| plan.draft.tree.len()).sum() }
    }
}
