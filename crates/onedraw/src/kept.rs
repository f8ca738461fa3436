//! Which tokens a draw could have come to: the kept set, as a summary or as ids.
//!
//! Most chains keep a prefix of the order, so three numbers describe the set: how many tokens it has, the last of
//! them, and its mass. They are enough to make it again from the same logits ([`Kept::ids`],
//! [`Kept::contains`]). The last token's logit is one after all edits, so this needs the edited row with the same
//! bits ([`EditedRow`]), and says so where it is given another.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kernels::row::Row;
use crate::numeric::key::Key;

/// The tokens that a chain kept of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// How many there are.
    pub count: u32,
    /// The last of them in the order, where the set is a prefix of it.
    pub last: Option<Border>,
    /// The logarithm of their mass: of the sum of exp((x - x_max) / T) over them, with logits after all edits,
    /// x_max the largest of them, and T the product of all temperatures (`dynatemp_range` makes it another one for
    /// each row). So the logprob of a kept token is (x - x_max) / T - `ln_mass`. 0 in a greedy draw.
    pub ln_mass: f64,
    /// Their ids in ascending order, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<Vec<u32>>,
}

/// The last kept token.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Border {
    /// Its id.
    pub token: u32,
    /// Its logit after all edits.
    pub logit: f32,
}

/// The logits of a row after all edits of a chain; −inf where a token was masked. Made by
/// [`Sampler::edited`](crate::Sampler::edited).
#[derive(Clone, Debug, PartialEq)]
pub struct EditedRow(pub(crate) Vec<f32>);

impl EditedRow {
    /// Logits that somebody else has edited, or that no edit changes.
    pub fn from_edited<'r>(logits: impl Into<Row<'r>>) -> Self {
        let row = logits.into();
        let mut logits = vec![0.0; row.len()];
        row.widen(0, &mut logits);
        Self(logits)
    }

    /// The logits.
    pub fn logits(&self) -> &[f32] {
        &self.0
    }

    /// The place of a token in the order.
    fn key(&self, token: u32) -> Result<Key, KeptError> {
        match self.0.get(token as usize) {
            Some(logit) if logit.is_nan() => Err(KeptError::NanLogit { token }),
            Some(&logit) => Ok(Key::new(logit, token)),
            None => Err(KeptError::OutsideVocabulary { token, vocabulary: self.0.len() }),
        }
    }
}

/// Why a kept set cannot be made again from a row.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum KeptError {
    /// The set is no prefix of the order, and its ids were not kept.
    NoPrefix,
    /// The token is not in the vocabulary of the row.
    OutsideVocabulary {
        /// The token.
        token: u32,
        /// The logits of the row.
        vocabulary: usize,
    },
    /// The logit of the token is not a number.
    NanLogit {
        /// The token.
        token: u32,
    },
    /// The set was kept of another row: this one masks the token.
    Masked {
        /// The token.
        token: u32,
    },
    /// Ids were asked for, and not kept.
    NoIds {
        /// Which of the sets it is.
        row: usize,
    },
    /// The set was kept of another row: its last token has another logit here.
    OtherLogit {
        /// The last token.
        border: Border,
        /// What the row has there.
        found: f32,
    },
    /// The set was kept of another row: here it has another number of tokens.
    OtherCount {
        /// Tokens of the set.
        kept: u32,
        /// Tokens of the row up to the last one.
        found: u32,
    },
}

impl fmt::Display for KeptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPrefix => {
                write!(f, "the kept set is not a prefix of the order, and its ids were not kept")
            }
            Self::OutsideVocabulary { token, vocabulary } => {
                write!(f, "token {token} is not in a row of {vocabulary} logits")
            }
            Self::NanLogit { token } => write!(f, "the logit of token {token} is NaN"),
            Self::Masked { token } => {
                write!(f, "the kept set does not belong to this row: token {token} is masked here")
            }
            Self::NoIds { row } => write!(f, "the ids of row {row} were not kept"),
            Self::OtherLogit { border: Border { token, logit }, found } => write!(
                f,
                "the kept set does not belong to this row: the logit of token {token} is {found} here, and was {logit}"
            ),
            Self::OtherCount { kept, found } => write!(
                f,
                "the kept set does not belong to this row: it has {kept} tokens, and {found} of this row are as likely"
            ),
        }
    }
}

impl std::error::Error for KeptError {}

impl Kept {
    /// Whether a token is in the set, which was kept of this row.
    pub fn contains(&self, row: &EditedRow, token: u32) -> Result<bool, KeptError> {
        let key = row.key(token)?;
        if let Some(ids) = &self.ids {
            return Ok(ids.binary_search(&token).is_ok());
        }
        Ok(key <= self.border(row)? && key <= Key::END)
    }

    /// The ids of the set, which was kept of this row, in ascending order.
    pub fn ids(&self, row: &EditedRow) -> Result<Vec<u32>, KeptError> {
        if let Some(ids) = &self.ids {
            self.check_ids(row, ids)?;
            return Ok(ids.clone());
        }
        let last = self.border(row)?;
        let mut ids = Vec::with_capacity(self.count.min(row.0.len() as u32) as usize);
        for token in 0..row.0.len() as u32 {
            let key = row.key(token)?;
            if key <= last && key <= Key::END {
                ids.push(token);
            }
        }
        let (kept, found) = (self.count, ids.len() as u32);
        if kept == found { Ok(ids) } else { Err(KeptError::OtherCount { kept, found }) }
    }

    /// Checks that ids can be a set of this row.
    fn check_ids(&self, row: &EditedRow, ids: &[u32]) -> Result<(), KeptError> {
        let (kept, found) = (self.count, ids.len() as u32);
        if kept != found || !ids.is_sorted_by(|a, b| a < b) {
            return Err(KeptError::OtherCount { kept, found });
        }
        for &token in ids {
            if row.key(token)? > Key::END {
                return Err(KeptError::Masked { token });
            }
        }
        Ok(())
    }

    /// The place of the last token, if this row has it there.
    fn border(&self, row: &EditedRow) -> Result<Key, KeptError> {
        let border = self.last.ok_or(KeptError::NoPrefix)?;
        let key = row.key(border.token)?;
        let found = row.0[border.token as usize];
        // The order does not tell 0 from -0.
        if found == border.logit { Ok(key) } else { Err(KeptError::OtherLogit { border, found }) }
    }
}

/// The kept sets of several rows in one list, as engines and trainers exchange them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptSets {
    /// The ids of all rows, one row after another, in ascending order within a row.
    pub token_ids: Vec<u32>,
    /// Row i has the ids from `offsets[i]` up to `offsets[i + 1]`; one more entry than rows.
    pub offsets: Vec<u64>,
}

impl KeptSets {
    /// Joins the sets of rows. [`KeptError::NoIds`] for a row whose ids were not kept.
    pub fn new<'a>(sets: impl IntoIterator<Item = &'a Kept>) -> Result<Self, KeptError> {
        let mut joined = Self { token_ids: Vec::new(), offsets: vec![0] };
        for (row, kept) in sets.into_iter().enumerate() {
            joined.token_ids.extend(kept.ids.as_ref().ok_or(KeptError::NoIds { row })?);
            joined.offsets.push(joined.token_ids.len() as u64);
        }
        Ok(joined)
    }

    /// The ids of a row; `None` if there is no such row.
    pub fn row(&self, row: usize) -> Option<&[u32]> {
        let (&start, &end) = (self.offsets.get(row)?, self.offsets.get(row + 1)?);
        self.token_ids.get(start as usize..end as usize)
    }
}
