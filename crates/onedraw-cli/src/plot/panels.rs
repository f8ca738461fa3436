//! Distributions side by side: under several values of a parameter, or stage by stage.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use onedraw::explain::StageEffect;
use onedraw::{Row, Sampler, SamplingParams, Stage};
use serde_json::Value;

use crate::redrawn::{count_possible, entropy};

/// What happens to a token in one panel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// It could be drawn, with this probability.
    Stays(f64),
    /// It could be drawn with this probability, and it is the token that the seed draws.
    Drawn(f64),
    /// This stage removes it; the probability that it had before.
    Goes(f64),
    /// An earlier stage removed it.
    Absent,
}

impl Bar {
    pub fn probability(self) -> f64 {
        match self {
            Self::Stays(p) | Self::Drawn(p) | Self::Goes(p) => p,
            Self::Absent => 0.0,
        }
    }
}

/// One distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    pub heading: String,
    pub notes: Vec<String>,
    /// One for each token of the figure, and one for all others together.
    pub bars: Vec<Bar>,
}

/// Panels over the same tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Panels {
    pub title: String,
    pub tokens: Vec<u32>,
    pub panels: Vec<Panel>,
}

/// The most panels that fit a figure.
const MOST: usize = 16;

/// A distribution before it is cut down to the tokens that are shown.
struct Whole {
    heading: String,
    notes: Vec<String>,
    bars: BTreeMap<u32, Bar>,
}

/// A row, and the parameters that are applied to it.
pub struct Setting<'a> {
    pub heading: String,
    pub row: Row<'a>,
    pub params: SamplingParams,
}

/// The distribution that each setting gives, among the tokens that `mask` allows. At most `count` tokens are
/// shown.
pub fn vary(settings: Vec<Setting<'_>>, mask: Option<&[u32]>, count: usize) -> Result<Panels> {
    if settings.len() > MOST {
        bail!("--vary: {} values; at most {MOST} fit a figure", settings.len());
    }
    let wholes = settings.into_iter().map(|setting| whole(setting, mask)).collect::<Result<_>>()?;
    Ok(choose(wholes, count))
}

fn whole(Setting { heading, row, params }: Setting<'_>, mask: Option<&[u32]>) -> Result<Whole> {
    let mut sampler = Sampler::new(params)?;
    let named = |error| anyhow!("{heading}: {error}");
    let distribution = match mask {
        Some(mask) => sampler.distribution_masked(row, mask).map_err(named)?,
        None => sampler.distribution(row).map_err(named)?,
    };
    let drawn = match mask {
        Some(mask) => sampler.sample_masked(row, mask)?.token,
        None => sampler.sample(row)?.token,
    };
    let bits = entropy(&distribution.probabilities, &distribution.logprobs);
    let pairs = distribution.tokens.iter().zip(&distribution.probabilities);
    let bar =
        |(token, p): (&u32, &f64)| (*token, if *token == drawn { Bar::Drawn(*p) } else { Bar::Stays(*p) });
    let bars = pairs.map(bar).collect();
    let notes = vec![tokens(count_possible(&distribution.probabilities)), format!("entropy {bits:.2} bits")];
    Ok(Whole { heading, notes, bars })
}

/// The distribution that each stage leaves of a row, among the tokens that `mask` allows.
pub fn pipeline(row: Row<'_>, params: SamplingParams, mask: Option<&[u32]>, count: usize) -> Result<Panels> {
    let settings = serde_json::to_value(&params)?;
    let mut sampler = Sampler::new(params)?;
    let explanation = match mask {
        Some(mask) => sampler.explain_masked(row, mask, row.len())?,
        None => sampler.explain(row, row.len())?,
    };
    let last = explanation.stages.len() - 1;
    let whole = |(place, effect): (usize, &StageEffect)| {
        let goes = effect.removed.iter().map(|gone| (gone.token, Bar::Goes(gone.probability)));
        let stays = effect.leading.iter().map(|left| {
            let is_drawn = place == last && left.token == explanation.token;
            let bar = if is_drawn { Bar::Drawn } else { Bar::Stays };
            (left.token, bar(left.probability))
        });
        Whole { heading: heading(effect, &settings), notes: notes(effect), bars: goes.chain(stays).collect() }
    };
    Ok(choose(explanation.stages.iter().enumerate().map(whole).collect(), count))
}

/// The name of a stage, or of the parameter whose number stands for it, with that number.
fn heading(effect: &StageEffect, settings: &Value) -> String {
    if effect.stage == "row" {
        return "the model's row".to_owned();
    }
    let field = effect.stage.parse::<Stage>().ok().and_then(|stage| stage.headline_field());
    match field.and_then(|field| Some((field, settings[field].as_f64()?))) {
        Some((field, value)) => format!("{field} {value}"),
        None => effect.stage.clone(),
    }
}

fn notes(effect: &StageEffect) -> Vec<String> {
    let mut notes = vec![tokens(effect.tokens as usize), format!("entropy {:.2} bits", effect.entropy)];
    if effect.gone > 0 {
        notes[0] += &format!(", {} gone", effect.gone);
        notes.push(format!("{} of the mass kept", percent(effect.mass)));
    }
    notes.extend(effect.decision.clone());
    notes
}

fn tokens(count: usize) -> String {
    format!("{count} token{}", if count == 1 { "" } else { "s" })
}

/// A percentage of about three digits, short enough to fit beside a bar.
pub fn percent(p: f64) -> String {
    match 100.0 * p {
        0.0 => "0%".to_owned(),
        p if p < 0.01 => "<0.01%".to_owned(),
        p if p < 9.995 => format!("{p:.2}%"),
        p if p < 99.95 => format!("{p:.1}%"),
        p if p < 100.0 => ">99.9%".to_owned(),
        _ => "100%".to_owned(),
    }
}

/// Reduces distributions to the tokens that are the most likely in any of them, with one bar for all others
/// together.
fn choose(wholes: Vec<Whole>, count: usize) -> Panels {
    let mut highest: BTreeMap<u32, f64> = BTreeMap::new();
    for (token, bar) in wholes.iter().flat_map(|whole| &whole.bars) {
        let seen = highest.entry(*token).or_default();
        *seen = seen.max(bar.probability());
    }
    let mut tokens: Vec<(u32, f64)> = highest.into_iter().collect();
    // The drawn tokens are always shown.
    let drawn = |token: &u32| wholes.iter().any(|whole| matches!(whole.bars.get(token), Some(Bar::Drawn(_))));
    let by_mass = |(a, p): &(u32, f64), (b, q): &(u32, f64)| q.total_cmp(p).then(a.cmp(b));
    tokens.sort_unstable_by(|one, other| drawn(&other.0).cmp(&drawn(&one.0)).then(by_mass(one, other)));
    let is_all = tokens.len() <= count;
    tokens.truncate(count);
    tokens.sort_unstable_by(by_mass);
    let tokens: Vec<u32> = tokens.into_iter().map(|(token, _)| token).collect();
    let panel = |whole: Whole| {
        let mut bars: Vec<Bar> =
            tokens.iter().map(|token| whole.bars.get(token).copied().unwrap_or(Bar::Absent)).collect();
        if !is_all {
            bars.push(others(&whole, &tokens));
        }
        Panel { heading: whole.heading, notes: whole.notes, bars }
    };
    let panels = wholes.into_iter().map(panel).collect();
    Panels { title: String::new(), tokens, panels }
}

/// One bar for all tokens that are not shown.
fn others(whole: &Whole, shown: &[u32]) -> Bar {
    let hidden = whole.bars.iter().filter(|(token, _)| !shown.contains(token)).map(|(_, bar)| *bar);
    let left: Vec<Bar> = hidden.filter(|bar| matches!(bar, Bar::Stays(_) | Bar::Drawn(_))).collect();
    if left.is_empty() { Bar::Absent } else { Bar::Stays(left.iter().map(|bar| bar.probability()).sum()) }
}

impl Panels {
    /// Whether there is a bar for the tokens that are not shown.
    pub fn has_others(&self) -> bool {
        self.panels.iter().any(|panel| panel.bars.len() > self.tokens.len())
    }

    /// The longest bar of a token in all panels. The bar of all others together may be longer, and is broken
    /// off.
    pub fn highest(&self) -> f64 {
        let bars = self.panels.iter().flat_map(|panel| panel.bars.iter().take(self.tokens.len()));
        bars.map(|bar| bar.probability()).fold(f64::MIN_POSITIVE, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(json: &str) -> SamplingParams {
        SamplingParams::from_json(json).expect(json)
    }

    /// Probabilities 0.6, 0.3 and 0.1.
    const ROW: [f32; 3] = [-0.510_825_6, -1.203_972_8, -std::f32::consts::LN_10];

    fn setting(json: &str) -> Setting<'static> {
        Setting { heading: json.to_owned(), row: (&ROW[..]).into(), params: params(json) }
    }

    #[track_caller]
    fn assert_close(bars: &[Bar], expected: &[Bar]) {
        let same = |(one, other): (&Bar, &Bar)| {
            std::mem::discriminant(one) == std::mem::discriminant(other)
                && (one.probability() - other.probability()).abs() < 1e-6
        };
        assert!(bars.len() == expected.len() && bars.iter().zip(expected).all(same), "{bars:?} {expected:?}");
    }

    #[test]
    fn a_panel_for_each_value() {
        let each = ["{\"seed\":0,\"temperature\":0}", "{\"seed\":0,\"top_k\":2}"].map(setting);
        let figure = vary(each.into(), None, 2).expect("panels");
        assert_eq!(figure.tokens, [0, 1]);
        assert_close(&figure.panels[0].bars, &[Bar::Drawn(1.0), Bar::Absent]);
        assert!((figure.panels[1].bars[0].probability() - 2.0 / 3.0).abs() < 1e-6);
        assert_eq!(figure.panels[0].notes, ["1 token", "entropy 0.00 bits"]);
        assert_eq!(figure.panels[1].notes, ["2 tokens", "entropy 0.92 bits"]);
    }

    #[test]
    fn tokens_that_are_not_shown_are_added_up() {
        let figure = vary(vec![setting("{\"seed\":0}")], None, 1).expect("a panel");
        assert_eq!((figure.tokens.as_slice(), figure.has_others()), (&[0][..], true));
        assert!((figure.panels[0].bars[1].probability() - 0.4).abs() < 1e-6);
    }

    #[test]
    fn a_mask_leaves_what_it_allows() {
        let figure = vary(vec![setting("{\"seed\":0}")], Some(&[0b110]), 5).expect("a panel");
        assert_eq!(figure.tokens, [1, 2]);
        assert!((figure.panels[0].bars[0].probability() - 0.75).abs() < 1e-6);
        let figure = pipeline((&ROW[..]).into(), params("{\"seed\":0}"), Some(&[0b100]), 5).expect("panels");
        assert_eq!(figure.tokens, [2, 0, 1]);
        let last = &figure.panels.last().expect("a panel").bars;
        assert_close(last, &[Bar::Drawn(1.0), Bar::Goes(0.6), Bar::Goes(0.3)]);
    }

    #[test]
    fn a_panel_for_each_stage() {
        let settings = params(r#"{"seed": 0, "top_k": 2, "min_p": 0.4, "temperature": 0.5}"#);
        let figure = pipeline((&ROW[..]).into(), settings, None, 5).expect("panels");
        let headings: Vec<&str> = figure.panels.iter().map(|panel| panel.heading.as_str()).collect();
        assert_eq!(headings, ["the model's row", "temperature 0.5", "min_p 0.4", "top_k 2"]);
        assert_close(&figure.panels[0].bars, &[Bar::Stays(0.6), Bar::Stays(0.3), Bar::Stays(0.1)]);
        let squares = 0.36 + 0.09 + 0.01;
        let goes = [Bar::Stays(1.0), Bar::Goes(0.09 / squares), Bar::Goes(0.01 / squares)];
        assert_close(&figure.panels[2].bars, &goes);
        assert_close(&figure.panels[3].bars, &[Bar::Drawn(1.0), Bar::Absent, Bar::Absent]);
        assert_eq!(
            figure.panels[2].notes,
            ["1 token, 2 gone", "entropy 0.00 bits", "78.3% of the mass kept"]
        );
    }

    #[test]
    fn percentages_fit() {
        let shown = [0.0, 1e-9, 0.001_234, 0.099_95, 0.123_4, 0.9994, 0.99951, 1.0].map(percent);
        assert_eq!(shown, ["0%", "<0.01%", "0.12%", "10.0%", "12.3%", "99.9%", ">99.9%", "100%"]);
    }
}
