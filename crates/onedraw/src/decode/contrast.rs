//! Two rows of logits made into one: an expert model against an amateur, one prompt against another, the last
//! layer against an earlier one.
//!
//! Each method is a weighted difference over the tokens that the expert finds plausible, `x ≥ x_max + ln α`,
//! and −inf elsewhere:
//!
//! | | row | from |
//! |---|---|---|
//! | [`Contrast::li`] | `e − a / τ` | Li and others 2022, Contrastive Decoding |
//! | [`Contrast::obrien`] | `(1 + β) e − β a` | O'Brien and Lewis 2023 |
//! | [`Contrast::guidance`] | `u + g (c − u)`, of all tokens | Ho and Salimans 2022; Sanchez and others 2023 |
//! | [`Contrast::dola`] | `e − l`, l of an earlier layer ([`contrasting_layer`]) | DoLa: Chuang and others 2023 |
//!
//! The papers use logprobs where this uses logits. The two differ by one number for the whole row, which does
//! not change a softmax, so no normaliser is computed. The result is a row like any other: every edit,
//! truncation and draw of the library can follow.
//!
//! Each logit is computed in f64, rounded once, and saturates at ±f32::MAX. Where the amateur gives a
//! plausible token no chance at all, that token gets the highest possible logit.

use crate::error::{ParamError, RowError};
use crate::kernels::row::Row;
use crate::numeric::float_mode::Standard;
use crate::numeric::math::{exp, ln};

/// How two rows are made into one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contrast {
    /// A token must be at least α times as likely as the expert's best; 0 allows any token.
    alpha: f64,
    /// The factor of the expert's logits, and the factor of the amateur's logits, which are subtracted.
    expert: f64,
    amateur: f64,
}

impl Contrast {
    /// The expert minus the amateur at a temperature of its own. The paper uses α = 0.1, its code τ = 0.5. An
    /// error if α is not in [0, 1] or the temperature not in [0.001, 1000000].
    pub fn li(alpha: f64, amateur_temperature: f64) -> Result<Self, ParamError> {
        let _mode = Standard::enter();
        if !(1e-3..=1e6).contains(&amateur_temperature) {
            let message = format!("must be in [0.001, 1000000], not {amateur_temperature}");
            return Err(ParamError::new("amateur_temperature", message));
        }
        Self::new(alpha, 1.0, 1.0 / amateur_temperature)
    }

    /// The expert, with its differences from the amateur amplified. The paper uses α = 0.1 and β = 0.5. With
    /// β = 0 this is the expert among its plausible tokens. An error if α is not in [0, 1] or β not in [0,
    /// 1000000].
    pub fn obrien(alpha: f64, beta: f64) -> Result<Self, ParamError> {
        let _mode = Standard::enter();
        if !(0.0..=1e6).contains(&beta) {
            return Err(ParamError::new("beta", format!("must be in [0, 1000000], not {beta}")));
        }
        Self::new(alpha, 1.0 + beta, beta)
    }

    /// Guidance away from what follows another prompt, over all tokens. Scale 1 is the row of the prompt
    /// itself, 0 that of the other prompt. An error if the scale is not in [−1000000, 1000000].
    pub fn guidance(scale: f64) -> Result<Self, ParamError> {
        let _mode = Standard::enter();
        if !(-1e6..=1e6).contains(&scale) {
            return Err(ParamError::new("guidance", format!("must be in [-1000000, 1000000], not {scale}")));
        }
        Self::new(0.0, scale, scale - 1.0)
    }

    /// The last layer minus an earlier one, among the tokens that are at least `relative_top` times as likely
    /// as the best. The paper uses 0.1. An error if it is not in [0, 1].
    pub fn dola(relative_top: f64) -> Result<Self, ParamError> {
        Self::new(relative_top, 1.0, 1.0)
    }

    fn new(alpha: f64, expert: f64, amateur: f64) -> Result<Self, ParamError> {
        if !(0.0..=1.0).contains(&alpha) {
            return Err(ParamError::new("alpha", format!("must be in [0, 1], not {alpha}")));
        }
        Ok(Self { alpha, expert, amateur })
    }

    /// Writes the combined row into `out`, whose memory is reused. It is an error if the rows differ in
    /// length, are empty, or if a logit is NaN or +inf; that error names the lowest such token of the first
    /// row that has one.
    ///
    /// ```
    /// use onedraw::Contrast;
    /// let mut row = Vec::new();
    /// // The expert hesitates between two tokens; the amateur would take the first one anyway.
    /// Contrast::li(0.1, 1.0)?.apply(&[2.0_f32, 1.9, -3.0], &[2.0_f32, 0.0, -9.0], &mut row)?;
    /// assert_eq!(row, [0.0, 1.9, f32::NEG_INFINITY]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn apply<'r>(
        &self,
        expert: impl Into<Row<'r>>,
        amateur: impl Into<Row<'r>>,
        out: &mut Vec<f32>,
    ) -> Result<(), RowError> {
        let _mode = Standard::enter();
        let (expert, amateur) = (expert.into(), amateur.into());
        let highest = highest(expert, amateur)?;
        // With α = 0 every token passes.
        let bar = if self.alpha > 0.0 { f64::from(highest) + ln(self.alpha) } else { f64::NEG_INFINITY };
        out.clear();
        out.extend((0..expert.len()).map(|token| {
            let (expert, amateur) = (expert.get(token), amateur.get(token));
            if expert == f32::NEG_INFINITY || f64::from(expert) < bar {
                return f32::NEG_INFINITY;
            }
            // 0 · inf would be NaN. An amateur with weight 0 takes nothing off.
            let taken_off = if self.amateur == 0.0 { 0.0 } else { self.amateur * f64::from(amateur) };
            let score = self.expert * f64::from(expert) - taken_off;
            score.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
        }));
        Ok(())
    }
}

/// The highest logit of the first row. An error if the rows differ in length, are empty, if one has a NaN or
/// +inf, or if every logit of the first is −inf.
fn highest(first: Row<'_>, second: Row<'_>) -> Result<f32, RowError> {
    if first.len() != second.len() {
        return Err(RowError::RowsDiffer { first: first.len(), second: second.len() });
    }
    let scan = |row: Row<'_>| {
        (0..row.len()).try_fold(f32::NEG_INFINITY, |highest, token| match row.get(token) {
            x if x.is_nan() => Err(RowError::NanLogit { token: token as u32 }),
            f32::INFINITY => Err(RowError::InfiniteLogit { token: token as u32 }),
            x => Ok(if x > highest { x } else { highest }),
        })
    };
    let highest = scan(first)?;
    scan(second)?;
    match highest {
        _ if first.is_empty() => Err(RowError::EmptyRow),
        f32::NEG_INFINITY => Err(RowError::NothingLeft { stage: None }),
        highest => Ok(highest),
    }
}

/// The index of the layer whose row is furthest from that of the last layer, by the Jensen-Shannon
/// divergence. This is the layer that DoLa contrasts with. Of equally distant layers the first; `None` if
/// there are no layers.
pub fn contrasting_layer(last: Row<'_>, layers: &[Row<'_>]) -> Result<Option<usize>, RowError> {
    let mut furthest: Option<(f64, usize)> = None;
    for (number, &layer) in layers.iter().enumerate() {
        let divergence = divergence(last, layer)?;
        if furthest.is_none_or(|(most, _)| divergence > most) {
            furthest = Some((divergence, number));
        }
    }
    Ok(furthest.map(|(_, number)| number))
}

/// The Jensen-Shannon divergence between the softmaxes of two rows, in nats: 0 to ln 2.
pub fn divergence(first: Row<'_>, second: Row<'_>) -> Result<f64, RowError> {
    let _mode = Standard::enter();
    let (p, q) = (logprobs(first, second)?, logprobs(second, first)?);
    let mut sum = 0.0;
    for (p, q) in p.into_iter().zip(q) {
        let (share_p, share_q) = (exp(p), exp(q));
        let middle = ln(0.5 * (share_p + share_q));
        // 0 · ln 0 counts as 0.
        sum += if share_p > 0.0 { share_p * (p - middle) } else { 0.0 };
        sum += if share_q > 0.0 { share_q * (q - middle) } else { 0.0 };
    }
    Ok((0.5 * sum).max(0.0))
}

/// The logprobs of `row`. An error if `other` differs in length or either row cannot be used.
fn logprobs(row: Row<'_>, other: Row<'_>) -> Result<Vec<f64>, RowError> {
    let highest = f64::from(highest(row, other)?);
    let mut logprobs: Vec<f64> = (0..row.len()).map(|token| f64::from(row.get(token)) - highest).collect();
    let total = logprobs.iter().fold(0.0, |total, &x| total + exp(x));
    let normaliser = ln(total);
    logprobs.iter_mut().for_each(|x| *x -= normaliser);
    Ok(logprobs)
}
