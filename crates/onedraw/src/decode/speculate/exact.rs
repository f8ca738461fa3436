//! Exact verification: the target makes its own draw at every node. The drafter decides how far one pass
//! gets, and nothing else.

use super::draft::Draft;
use super::text::{Text, walk};
use super::verdict::Verdict;

/// Verifies a draft; see the module.
pub(super) fn verify(text: &mut Text<'_, '_>, draft: &Draft) -> Verdict {
    walk(text, draft, |text, node, _| text.draw(node))
}
