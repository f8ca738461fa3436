//! Block verification (Sun and others, 2024): a chain of guesses is judged as a whole.
//!
//! Let p and q be the distributions of target and drafter after i guesses, and x the next guess. Then `P_0 =
//! 1` and `P_{i+1} = min(1, P_i·p(x)/q(x))`. Every length has a coin of its own. The coin of the first i
//! guesses says yes with probability `h_i = R_i / (R_i + 1 − P_i)`, where `R_i` is the sum of max(P_i·p − q,
//! 0); the coin of all g guesses says yes with `h_g = P_g`. The longest length whose coin says yes is
//! accepted. The next token is drawn from max(P_i·p − q, 0), or from p after all guesses. On average no rule
//! that keeps the target's distribution accepts more; rejection, token by token, accepts as much or less.
//!
//! A chain may end early, at a length that depends on its own guesses: where a constraint forces the next
//! token, or where the target has no distribution to continue with. That is equivalent to a drafter whose
//! further guesses are always right: `P` keeps its value, and there is no excess.

use super::chance::Chance;
use super::draft::Draft;
use super::law::Probabilities;
use super::text::Target;
use super::verdict::Verdict;
use crate::error::RowError;
use crate::sampled::Sampled;

/// A position of the chain that has a guess after it.
struct Place {
    /// The distribution of the target.
    p: Probabilities,
    /// The distribution that the guess was drawn from.
    q: Probabilities,
    /// P at this position.
    share: f64,
}

impl Place {
    /// The probability that the coin of the guesses up to here says yes.
    fn hold(&self) -> f64 {
        let (excess, rest) = (self.p.excess(self.share, &self.q), 1.0 - self.share);
        // If P is 1 the coin always says yes, also where p equals q and the quotient would be 0/0.
        if rest > 0.0 { excess / (excess + rest) } else { 1.0 }
    }
}

/// What follows the last position.
enum End {
    /// The target's law after the last guess.
    Leaf(Probabilities),
    /// A forced token, which needs no draw.
    Forced,
    /// The target has no distribution.
    Failed(RowError),
    /// The last guess has probability 0 under the target.
    Impossible,
}

/// Verifies a chain; see the module.
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
    // The coin of a length is that of its last guess. Length 0 needs no coin.
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
        // The last guess is accepted and no draw follows it: a token is forced next. (An impossible guess is
        // never accepted.)
        (None, End::Forced | End::Impossible) => {
            verdict.path.pop();
            return Ok(verdict);
        }
    };
    let token = chance.draws(length, &law);
    verdict.sampled.push(target.take(length.checked_sub(1), token)?);
    Ok(verdict)
}
