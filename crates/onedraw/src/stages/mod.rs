//! The stages, one file for each.
//!
//! Two kinds exist, and everything else follows from them. An **edit** (`edit/`) changes logits or masks
//! tokens. A **truncation** (`truncate/`) keeps a subset; most keep a prefix of the order. The temperature
//! stands between: it is a factor, and never reorders. A user's own stage (`custom`) is either kind.

pub(crate) mod custom;
pub mod edit;
pub mod temperature;
pub mod truncate;
