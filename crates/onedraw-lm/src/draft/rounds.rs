//! The drafts of all texts of a pass. They grow in rounds: in each the drafter guesses at one place of every text where
//! that pays, all in one pass of its own.

use std::cell::RefCell;

use onedraw::Batch;
use onedraw::clock::Instant;

use crate::draft::ahead::{Ahead, Plan, Text};
use crate::draft::drafter::{AnyDrafter, AnyMemory, Drafter};
use crate::draft::planned::{Planned, Round};
use crate::draft::policy::Policy;
use crate::draft::settings::Speculation;
use crate::error::ModelError;
use crate::model::LanguageModel;

/// The guesses for each text, and what they took.
#[derive(Default)]
pub(crate) struct Drafts {
    pub plans: Vec<Plan>,
    pub planned: Planned,
}

/// The draft of one text. None is made where no guess can be verified.
struct Growing<'g, M: LanguageModel> {
    memory: &'g mut AnyMemory,
    ahead: Option<Ahead<'g, M>>,
    /// Whether guesses are wanted in the next round.
    is_wanted: bool,
}

/// The drafts of texts, each with what the drafter remembers of it, for a pass of `plain` positions without guesses.
pub(super) fn draft<M: LanguageModel>(
    drafter: &AnyDrafter<'_, M>,
    target: &M,
    policy: &Policy,
    settings: Speculation,
    batch: &mut Batch,
    plain: usize,
    texts: Vec<(&mut AnyMemory, Text<'_, M>)>,
) -> Result<Drafts, ModelError> {
    let batch = RefCell::new(batch);
    let grow = |(memory, text)| {
        let ahead = Ahead::new(target, &batch, &policy.chances, settings, text);
        Growing { memory, is_wanted: ahead.is_some(), ahead }
    };
    let mut drafts: Vec<Growing<'_, M>> = texts.into_iter().map(grow).collect();
    let mut rounds = Vec::new();
    while drafts.iter().any(|draft| draft.is_wanted) {
        match round(drafter, target, &mut drafts) {
            Ok(round) => rounds.extend((round.texts > 0).then_some(round)),
            Err(error) => {
                drafts.into_iter().filter_map(|draft| draft.ahead).for_each(Ahead::give_up);
                return Err(error);
            }
        }
        want(&mut drafts, policy, settings, plain, &rounds);
    }
    let (chosen, worth) = choose(&drafts, policy, settings, plain, &rounds);
    let guesses = chosen.iter().map(Vec::len).sum();
    let plans = drafts.into_iter().zip(chosen);
    let plans = plans.map(|(draft, nodes)| draft.ahead.map(|ahead| ahead.plan(&nodes)).unwrap_or_default());
    Ok(Drafts { plans: plans.collect(), planned: Planned { rounds, guesses, worth } })
}

/// Lets the drafter guess where guesses are wanted.
fn round<M: LanguageModel>(
    drafter: &AnyDrafter<'_, M>,
    target: &M,
    drafts: &mut [Growing<'_, M>],
) -> Result<Round, ModelError> {
    let begun = Instant::now();
    let before = expansions(drafts);
    let wanted = drafts.iter_mut().filter(|draft| draft.is_wanted);
    let mut texts: Vec<_> =
        wanted.filter_map(|Growing { memory, ahead, .. }| Some((&mut **memory, ahead.as_mut()?))).collect();
    drafter.guess(target, &mut texts)?;
    Ok(Round { texts: expansions(drafts) - before, time: begun.elapsed() })
}

fn expansions<M: LanguageModel>(drafts: &[Growing<'_, M>]) -> usize {
    drafts.iter().filter_map(|draft| draft.ahead.as_ref()).map(Ahead::expansions).sum()
}

/// Wants guesses after the worthiest guess of each text where that pays, or after the first one of every text.
fn want<M: LanguageModel>(
    drafts: &mut [Growing<'_, M>],
    policy: &Policy,
    settings: Speculation,
    plain: usize,
    rounds: &[Round],
) {
    let open = drafts.iter().enumerate();
    let mut open: Vec<(usize, (usize, f64))> =
        open.filter_map(|(text, draft)| Some((text, draft.ahead.as_ref()?.next()?))).collect();
    if settings.is_adaptive() {
        open.sort_by(|(_, (_, one)), (_, (_, other))| other.total_cmp(one));
        let worths: Vec<f64> = open.iter().map(|&(_, (_, worth))| worth).collect();
        // One guess per expansion is likely to go into the pass.
        open.truncate(policy.expand(&worths, rounds, plain, plain + expansions(drafts)));
    }
    drafts.iter_mut().for_each(|draft| draft.is_wanted = false);
    for (text, (node, _)) in open {
        let Growing { ahead: Some(ahead), is_wanted, .. } = &mut drafts[text] else { continue };
        ahead.go_to(node);
        *is_wanted = true;
    }
}

/// The guesses of each text that are worth a position in the pass, in their order, and their worth together.
fn choose<M: LanguageModel>(
    drafts: &[Growing<'_, M>],
    policy: &Policy,
    settings: Speculation,
    plain: usize,
    rounds: &[Round],
) -> (Vec<Vec<usize>>, f64) {
    let mut all: Vec<(f64, usize, usize)> = Vec::new();
    for (text, draft) in drafts.iter().enumerate() {
        let worths = draft.ahead.iter().flat_map(Ahead::worths);
        all.extend(worths.enumerate().map(|(node, worth)| (worth, text, node)));
    }
    if settings.is_adaptive() {
        // A guess is worth no more than its parent, so the worthiest ones are trees.
        all.sort_by(|one, other| other.0.total_cmp(&one.0));
        let worths: Vec<f64> = all.iter().map(|&(worth, ..)| worth).collect();
        all.truncate(policy.choose(&worths, rounds, plain));
    }
    let mut chosen = vec![Vec::new(); drafts.len()];
    for &(_, text, node) in &all {
        chosen[text].push(node);
    }
    chosen.iter_mut().for_each(|nodes| nodes.sort_unstable());
    (chosen, all.iter().map(|(worth, ..)| worth).sum())
}
