//! Tokens that were taken back, each banned at its position. Always the first edit, whatever the order: a banned token is not there to
//! begin with.

use crate::edit::Context;
use crate::edited::Edited;

/// A token that must not be drawn at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Ban {
    /// The number of output tokens before it.
    pub position: u32,
    /// The id.
    pub token: u32,
}

pub(crate) fn apply(row: &mut Edited<'_>, context: &Context<'_>) {
    for ban in context.bans.iter().filter(|ban| ban.position == context.position) {
        row.mask(ban.token);
    }
}
