//! Two rows of logits into one: an expert's against an amateur's, a prompt's against another's, the last
//! layer's against an earlier one's.
//!
//! Each method is a weighted difference over the tokens that the expert finds plausible, `x ≥ x_max + ln α`,
//! and −inf elsewhere:
//!
//! | | row | from |
//! |---|---|---|
//! | [`Contrast::li`] | `e − a / τ` | Li, Holtzman, Fried, Liang, Eisner, Hashimoto, Zettlemoyer and Lewis 2022 |
//! | [`Contrast::obrien`] | `(1 + β) e − β a` | O'Brien and Lewis 2023 |
//! | [`Contrast::guidance`] | `u + g (c − u)`, of all tokens | classifier-free guidance: Ho and Salimans 2022; Sanchez and others 2023 |
//! | [`Contrast::dola`] | `e − l`, l being an earlier layer's ([`contrasting_layer`]) | DoLa: Chuang, Xie, Luo, Kim, Glass and He 2023 |
//!
//! The papers write logprobs where this has logits. The difference is one number for a whole row, which a
//! softmax does not see; so no normaliser is computed. What comes out is a row like any other: every edit,
//! truncation and draw of the library follows it.
//!
//! Each logit is computed in f64 and rounded once, and saturates at ±f32::MAX: where the amateur gives a
//! plausible token no chance at all, it has the highest score there is.

use crate::error::{ParamError, RowError};
use crate::kernels::row::Row;
use crate::numeric::float_mode::Standard;
use crate::numeric::math::{exp, ln};

/// How two rows become one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contrast {
    /// A token must be at least so many times as likely as the expert's best; 0: any.
    alpha: f64,
    /// What the expert's logits are multiplied by, and what of the amateur's is taken off.
    expert: f64,
    amateur: f64,
}

impl Contrast {
    /// The expert less the amateur at a temperature of its own. The paper has α = 0.1 and its code τ = 0.5.
    pub fn li(alpha: f64, amateur_temperature: f64) -> Result<Self, ParamError> {
        let _mode = Standard::enter();
        if !(1e-3..=1e6).contains(&amateur_temperature) {
            let message = format!("must be in [0.001, 1000000], not {amateur_temperature}");
            return Err(ParamError::new("amateur_temperature", message));
        }
        Self::new(alpha, 1.0, 1.0 / amateur_temperature)
    }

    /// The expert, exaggerated by what sets it apart from the amateur. The paper has α = 0.1 and β = 0.5; β =
    /// 0 is the expert among what it finds plausible.
    pub fn obrien(alpha: f64, beta: f64) -> Result<Self, ParamError> {
        let _mode = Standard::enter();
        if !(0.0..=1e6).contains(&beta) {
            return Err(ParamError::new("beta", format!("must be in [0, 1000000], not {beta}")));
        }
        Self::new(alpha, 1.0 + beta, beta)
    }

    /// Away from what follows another prompt, over all tokens: 1 is the prompt's own row, 0 the other's.
    pub fn guidance(scale: f64) -> Result<Self, ParamError> {
        let _mode = Standard::enter();
        if !(-1e6..=1e6).contains(&scale) {
            return Err(ParamError::new("guidance", format!("must be in [-1000000, 1000000], not {scale}")));
        }
        Self::new(0.0, scale, scale - 1.0)
    }

    /// The last layer less an earlier one, among the tokens at least `relative_top` times as likely as the
    /// best. The paper has 0.1.
    pub fn dola(relative_top: f64) -> Result<Self, ParamError> {
        Self::new(relative_top, 1.0, 1.0)
    }

    fn new(alpha: f64, expert: f64, amateur: f64) -> Result<Self, ParamError> {
        if !(0.0..=1.0).contains(&alpha) {
            return Err(ParamError::new("alpha", format!("must be in [0, 1], not {alpha}")));
        }
        Ok(Self { alpha, expert, amateur })
    }

    /// The row of both, into memory that is used again. A NaN or +inf in either is an error that names the
    /// lowest such token of the first row that has one.
    ///
    /// ```
    /// use onedraw::Contrast;
    /// let mut row = Vec::new();
    /// // The expert is torn between two tokens, of which the amateur would take the first anyway.
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
        // Above what any difference of two logits can reach where α is 0.
        let bar = if self.alpha > 0.0 { f64::from(highest) + ln(self.alpha) } else { f64::NEG_INFINITY };
        out.clear();
        out.extend((0..expert.len()).map(|token| {
            let (expert, amateur) = (expert.get(token), amateur.get(token));
            if expert == f32::NEG_INFINITY || f64::from(expert) < bar {
                return f32::NEG_INFINITY;
            }
            // 0 · inf would be no number: what has no weight has no say.
            let taken_off = if self.amateur == 0.0 { 0.0 } else { self.amateur * f64::from(amateur) };
            let score = self.expert * f64::from(expert) - taken_off;
            score.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
        }));
        Ok(())
    }
}

/// The highest logit of the first of two rows of one length. Neither may have a NaN or +inf.
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

/// Which of the layers' rows is furthest from the last layer's, by the Jensen-Shannon divergence: what DoLa
/// contrasts with. Of equals the first; `None` if there are no layers.
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

/// The Jensen-Shannon divergence of two rows' softmaxes, in nats: 0 to ln 2.
pub fn divergence(first: Row<'_>, second: Row<'_>) -> Result<f64, RowError> {
    let _mode = Standard::enter();
    let (p, q) = (logprobs(first, second)?, logprobs(second, first)?);
    let mut sum = 0.0;
    for (p, q) in p.into_iter().zip(q) {
        let (share_p, share_q) = (exp(p), exp(q));
        let middle = ln(0.5 * (share_p + share_q));
        // 0 · ln 0 is 0 here.
        sum += if share_p > 0.0 { share_p * (p - middle) } else { 0.0 };
        sum += if share_q > 0.0 { share_q * (q - middle) } else { 0.0 };
    }
    Ok((0.5 * sum).max(0.0))
}

/// Logprobs of the first row, which must be as long as the second.
fn logprobs(row: Row<'_>, other: Row<'_>) -> Result<Vec<f64>, RowError> {
    let highest = f64::from(highest(row, other)?);
    let mut logprobs: Vec<f64> = (0..row.len()).map(|token| f64::from(row.get(token)) - highest).collect();
    let total = logprobs.iter().fold(0.0, |total, &x| total + exp(x));
    let normaliser = ln(total);
    logprobs.iter_mut().for_each(|x| *x -= normaliser);
    Ok(logprobs)
}
