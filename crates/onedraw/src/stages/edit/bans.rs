//! Tokens that were taken back, each banned at its position. Always the first edit, whatever the order: a
//! banned token is not there to begin with.

use crate::logits::edited::EditedRow;
use crate::stages::edit::context::Context;

pub(crate) fn apply(row: &mut EditedRow<'_>, context: &Context<'_>) {
    for ban in context.bans.iter().filter(|ban| ban.position == context.position) {
        row.mask(ban.token);
    }
}
