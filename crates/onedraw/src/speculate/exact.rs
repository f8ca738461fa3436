//! The target's own draw at every node: what the drafter says decides how far a pass gets, and nothing else.

use super::{Draft, Text, Verdict};

pub(super) fn verify(text: &mut Text<'_, '_>, draft: &Draft) -> Verdict {
    let mut verdict = Verdict::default();
    let mut node = None;
    loop {
        let sampled = match text.draw(node) {
            Ok(sampled) => sampled,
            Err(error) => return Verdict { error: Some(error), ..verdict },
        };
        let token = sampled.token;
        verdict.sampled.push(sampled);
        let Some(child) = draft.tree.child(node, token) else { return verdict };
        // What a constraint does not take, or what it forces next, is for the loop that drives it.
        if text.descend(token).is_err() || text.is_forced() != Ok(false) {
            return verdict;
        }
        verdict.path.push(child);
        node = Some(child);
    }
}
