//! What the chain does to a row, stage by stage.

use onedraw::explain;
use pyo3::prelude::*;

use crate::display::{self, Bar};

/// A token and its probability: before the stage for `removed` and `border`, after it for `best` and `leading`.
#[pyclass(module = "onedraw", frozen, get_all, eq)]
#[derive(Clone, PartialEq)]
pub struct Candidate {
    /// The id.
    token: u32,
    /// Its probability.
    probability: f64,
}

#[pymethods]
impl Candidate {
    fn __repr__(&self) -> String {
        format!("Candidate(token={}, probability={:.4})", self.token, self.probability)
    }
}

fn candidate(&explain::Candidate { token, probability }: &explain::Candidate) -> Candidate {
    Candidate { token, probability }
}

/// What one stage did.
#[pyclass(module = "onedraw", frozen, get_all)]
#[derive(Clone)]
pub struct StageEffect {
    /// The name of the stage; `row` for the unmodified row.
    stage: String,
    /// Tokens left after it.
    tokens: u32,
    /// The share of the probability before it that the tokens left had.
    mass: f64,
    /// How many tokens it removed.
    gone: u32,
    /// The most likely of the removed tokens.
    removed: Vec<Candidate>,
    /// The last token that stayed, with its probability before the stage, if the stage cut the order at one place;
    /// else None. A removed token went out by `border.probability - its probability`.
    border: Option<Candidate>,
    /// The best token after it.
    best: Candidate,
    /// The most likely tokens after it, the best first.
    leading: Vec<Candidate>,
    /// The entropy after it, in bits.
    entropy: f64,
    /// The temperature in force after it.
    temperature: f64,
    /// What it decided at this draw, if the parameters do not say it; else None.
    decision: Option<String>,
    /// The time it took to find the tokens that are left. A draw needs less, because it only asks about its
    /// winner.
    nanoseconds: u64,
}

#[pymethods]
impl StageEffect {
    fn __repr__(&self) -> String {
        format!(
            "StageEffect({:?}, tokens={}, gone={}, entropy={:.3})",
            self.stage, self.tokens, self.gone, self.entropy
        )
    }
}

/// What the chain does to one row, stage by stage. Stages that are off are left out.
///
/// >>> import onedraw
/// >>> explanation = onedraw.explain([2.0, 1.0, 0.5, -3.0], temperature=0.5, top_k=3, min_p=0.1, seed=1)
/// >>> [(stage.stage, stage.tokens) for stage in explanation.stages]
/// [('row', 4), ('temperature', 4), ('min_p', 2), ('top_k', 2)]
/// >>> stage = explanation.stages[2]
/// >>> [(gone.token, round(stage.border.probability - gone.probability, 3)) for gone in stage.removed]
/// [(2, 0.072), (3, 0.114)]
#[pyclass(module = "onedraw", frozen, get_all)]
pub struct Explanation {
    /// The unmodified row, then each stage in the order of the chain.
    stages: Vec<StageEffect>,
    /// The token that is drawn here.
    token: u32,
    /// Its probability in the distribution it is drawn from.
    probability: f64,
    /// The position that is drawn.
    position: u32,
    /// The seed.
    seed: u64,
}

impl From<explain::Explanation> for Explanation {
    fn from(explained: explain::Explanation) -> Self {
        let effect = |effect: explain::StageEffect| StageEffect {
            removed: effect.removed.iter().map(candidate).collect(),
            border: effect.border.as_ref().map(candidate),
            best: candidate(&effect.best),
            leading: effect.leading.iter().map(candidate).collect(),
            stage: effect.stage,
            tokens: effect.tokens,
            mass: effect.mass,
            gone: effect.gone,
            entropy: effect.entropy,
            temperature: effect.temperature,
            decision: effect.decision,
            nanoseconds: effect.nanoseconds,
        };
        Self {
            stages: explained.stages.into_iter().map(effect).collect(),
            token: explained.token,
            probability: explained.probability,
            position: explained.position,
            seed: explained.seed,
        }
    }
}

#[pymethods]
impl Explanation {
    fn __repr__(&self) -> String {
        let mut lines =
            vec![format!("{:<14} {:>8} {:>8} {:>8} {:>8}", "stage", "tokens", "mass", "entropy", "best")];
        for effect in &self.stages {
            let StageEffect { stage, tokens, mass, entropy, best, decision, .. } = effect;
            let decision = decision.as_ref().map_or(String::new(), |decision| format!("  ({decision})"));
            lines.push(format!(
                "{stage:<14} {tokens:>8} {mass:>8.4} {entropy:>8.3} {:>8}{decision}",
                best.token
            ));
        }
        let Self { token, probability, seed, position, .. } = self;
        lines.push(format!(
            "draws token {token} (probability {probability:.4}), seed {seed}, position {position}"
        ));
        lines.join("\n")
    }

    fn _repr_html_(&self) -> String {
        let rows: Vec<Vec<String>> = self.stages.iter().map(cells).collect();
        let table = display::table(&["stage", "tokens", "mass", "entropy (bits)", "best", "decided"], &rows);
        let leading = self.stages.last().map(|stage| stage.leading.as_slice()).unwrap_or_default();
        let bars = leading
            .iter()
            .take(display::BARS)
            .map(|&Candidate { token, probability }| Bar::of_token(token, probability, token == self.token));
        let note = format!("draws token {} with {}", self.token, display::percent(self.probability));
        table + &display::chart("after the last stage", &bars.collect::<Vec<_>>(), &note)
    }
}

fn cells(effect: &StageEffect) -> Vec<String> {
    vec![
        effect.stage.clone(),
        effect.tokens.to_string(),
        format!("{:.4}", effect.mass),
        format!("{:.3}", effect.entropy),
        format!("{} ({})", effect.best.token, display::percent(effect.best.probability)),
        effect.decision.clone().unwrap_or_default(),
    ]
}
