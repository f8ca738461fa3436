//! The target's own draw at every node: what the drafter says decides how far a pass gets, and nothing else.

use super::text::{Text, walk};
use super::{Draft, Verdict};

pub(super) fn verify(text: &mut Text<'_, '_>, draft: &Draft) -> Verdict {
    walk(text, draft, |text, node, _| text.draw(node))
}
