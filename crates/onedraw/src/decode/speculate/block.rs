//! Block verification (Sun and others, 2024): a chain is judged as a whole.
//!
//! With p and q the laws of target and drafter after i guesses, and x the next one: `P_0 = 1`, `P_{i+1} =
//! min(1, P_i·p(x)/q(x))`. Every length has a coin of its own: that of the first i guesses says yes with
//! probability `h_i = R_i / (R_i + 1 − P_i)`, `R_i` being the sum of max(P_i·p − q, 0), and that of all g of
//! them with `h_g = P_g`. The longest yes is taken, and the next token is drawn from max(P_i·p − q, 0), or
//! from p after all of them. On average no rule that keeps the target's law accepts more; rejection, token by
//! token, accepts less or as much.
//!
//! A chain may end early, at a length that hangs on its own guesses: where a constraint forces what comes
//! next, or where the target has no law to go on with. That is as good as a drafter whose further guesses are
//! always right: `P` stays what it is, and nothing is in excess.

use super::chance::Chance;
use super::law::Probabilities;
use super::text::Target;
use super::{Draft, Verdict};
use crate::error::RowError;
use crate::sampled::Sampled;

/// A place of the chain that has a guess after it.
struct Place {
    /// What the target says.
    p: Probabilities,
    /// What the guess was drawn from.
    q: Probabilities,
    /// P here.
    share: f64,
}

impl Place {
    /// The probability that the coin of the guesses up to here says yes.
    fn hold(&self) -> f64 {
        let (excess, rest) = (self.p.excess(self.share, &self.q), 1.0 - self.share);
        // With nothing to make up for it does, also where p is q and there is no quotient.
        if rest > 0.0 { excess / (excess + rest) } else { 1.0 }
    }
}

/// What stands after the last place.
enum End {
    /// The target's law after the last guess.
    Leaf(Probabilities),
    /// A token that needs no draw.
    Forced,
    /// No law at all.
    Failed(RowError),
    /// A guess that the target never makes.
    Impossible,
}

pub(super) fn verify(
    target: &mut impl Target,
    draft: &Draft,
    chance: &mut dyn Chance,
) -> Result<Verdict, RowError> {
    let mut places = Vec::new();
    let mut sampled: Vec<Sampled> = Vec::new();
    let mut share = 1.0;
    let end = loop {
        let node = places.len().checked_sub(1);
        let p = match target.law(node) {
            Ok(p) => p,
            Err(error) => break End::Failed(error),
        };
        let Some(&guess) = draft.tree.tokens().get(places.len()) else { break End::Leaf(p) };
        let q = draft.law(node).cloned().unwrap_or_else(|| Probabilities::certain(guess));
        let next = f64::min(1.0, share * (p.probability(guess) / q.probability(guess)));
        places.push(Place { p, q, share });
        share = next;
        if share <= 0.0 {
            break End::Impossible;
        }
        sampled.push(target.take(node, guess)?);
        if !target.goes_on(guess) {
            break End::Forced;
        }
    };
    let all = if matches!(end, End::Impossible) { 0.0 } else { share };
    // The coin of a number of guesses is that of the last of them; no guesses hold for certain.
    let mut length = places.len();
    let mut hold = all;
    while length > 0 && !chance.accepts(length - 1, 0, hold) {
        length -= 1;
        hold = places[length].hold();
    }
    target.climb(length)?;
    sampled.truncate(length);
    let mut verdict = Verdict { path: (0..length).collect(), sampled, error: None };
    let law = match (places.into_iter().nth(length), end) {
        (Some(Place { p, q, share }), _) => p.residual(share, &q),
        (None, End::Leaf(p)) => p,
        (None, End::Failed(error)) => return Ok(Verdict { error: Some(error), ..verdict }),
        // The last guess is the token that no draw comes after. (An impossible one never holds.)
        (None, End::Forced | End::Impossible) => {
            verdict.path.pop();
            return Ok(verdict);
        }
    };
    let token = chance.draws(length, &law);
    verdict.sampled.push(target.take(length.checked_sub(1), token)?);
    Ok(verdict)
}
