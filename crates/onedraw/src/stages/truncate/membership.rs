//! What a truncation says about one token.

use crate::stages::truncate::share::Share;

/// Whether a token is kept, as far as a few cheap questions could tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Membership {
    Kept,
    Dropped,
    /// It is kept if the exact mass before it is below this share of the mass of all that the earlier
    /// truncations kept.
    NeedsMass(Share),
    /// Only the last token that is kept can tell.
    NeedsCut,
}

impl From<bool> for Membership {
    fn from(is_kept: bool) -> Self {
        if is_kept { Membership::Kept } else { Membership::Dropped }
    }
}
