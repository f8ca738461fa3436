//! The drafter of a generator, with what it has learned.

use std::time::{Duration, Instant};

use onedraw::Batch;
use onedraw::speculate::Verdict;

use crate::error::ModelError;
use crate::model::{Asks, LanguageModel, Run, Sequence, Wanted};
use crate::speculate::ahead::{Ahead, Plan, Text};
use crate::speculate::drafter::Drafter;
use crate::speculate::policy::{Brought, Policy};
use crate::speculate::settings::{Guessed, Speculation};

/// Makes the drafters of texts, and decides how much they guess.
pub(crate) struct Speculator<'a, M: LanguageModel> {
    /// What the drafter of every text is a fork of.
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

    /// Measures what passes cost, once, on a copy of a text: several positions are wanted for guesses.
    pub(crate) fn measure(&mut self, target: &M, memory: &M::Sequence, token: u32) -> Result<(), ModelError> {
        const POSITIONS: [usize; 4] = [1, 2, 4, 8];
        /// The shortest counts: the others were interrupted, or found their weights far away.
        const ROUNDS: usize = 2;
        if !self.policy.is_new() || !self.settings.is_adaptive() {
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
        self.policy.measured(&costs);
        Ok(())
    }

    /// What the drafter of a text guesses.
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
        self.policy.looked(plan.looks, plan.times);
        Ok(plan)
    }

    /// A pass of so many positions took so long.
    pub(crate) fn passed(&mut self, positions: usize, time: Duration) {
        self.policy.passed(positions, time);
    }

    /// How a plan was judged.
    pub(crate) fn judged(&mut self, plan: &Plan, verdict: &Verdict) {
        let tree = &plan.draft.tree;
        for (node, (&parent, &class)) in tree.parents().iter().zip(&plan.classes).enumerate() {
            if parent.is_none_or(|parent| verdict.path.contains(&parent)) {
                self.policy.learn(class, verdict.path.contains(&node));
            }
        }
        self.guessed.count(tree, &verdict.path, verdict.sampled.len());
    }

    /// What a pass brought, and what it took.
    pub(crate) fn brought(&mut self, pass: &Brought) {
        self.policy.brought(pass);
    }
}

/// What all texts of a pass had of guesses.
#[derive(Clone, Copy, Default)]
pub(crate) struct Planned {
    pub looks: usize,
    pub guesses: usize,
}

impl Planned {
    pub(crate) fn of(plans: &[Plan]) -> Self {
        let looks = plans.iter().map(|plan| plan.looks).sum();
        Self { looks, guesses: plans.iter().map(|plan| plan.draft.tree.len()).sum() }
    }
}
