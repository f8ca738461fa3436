//! `onedraw sample --explain` as a table: one line per stage.

use std::io::{self, Write};

use onedraw::Explanation;
use onedraw::explain::{Candidate, StageEffect};

/// Writes what the chain did to one row, and the token it ends in.
pub fn table(out: &mut impl Write, row: usize, explanation: &Explanation) -> io::Result<()> {
    let Explanation { stages, token, probability, position, seed } = explanation;
    let names = ["stage", "tokens", "gone", "mass kept", "best", "p(best)", "entropy", "T", "time"];
    line(out, names.map(str::to_owned), "went, most likely first")?;
    for effect in stages {
        let StageEffect { stage, tokens, gone, mass, best, entropy, temperature, nanoseconds, .. } = effect;
        let cells = [
            stage.clone(),
            tokens.to_string(),
            gone.to_string(),
            format!("{mass:.6}"),
            best.token.to_string(),
            format!("{:.6}", best.probability),
            format!("{entropy:.3}"),
            format!("{temperature:.4}"),
            format!("{:.1} µs", *nanoseconds as f64 / 1e3),
        ];
        line(out, cells, &remarks(effect))?;
    }
    writeln!(out, "row {row}, position {position}, seed {seed}: token {token}, probability {probability:.6}")
}

/// What the stage decided, and the tokens that went.
fn remarks(effect: &StageEffect) -> String {
    let named =
        effect.removed.iter().map(|Candidate { token, probability }| format!("{token} ({probability:.4})"));
    let hidden = (effect.gone as usize).saturating_sub(effect.removed.len());
    let hidden = (hidden > 0).then(|| format!("… {hidden} more"));
    let decision = effect.decision.iter().map(|decision| format!("{decision};"));
    let remarks: Vec<String> = decision.chain(named).chain(hidden).collect();
    remarks.join(" ").trim_end_matches(';').to_owned()
}

fn line(out: &mut impl Write, cells: [String; 9], remarks: &str) -> io::Result<()> {
    let [stage, tokens, gone, mass, best, p, entropy, temperature, time] = cells;
    let line = format!(
        "{stage:<16}{tokens:>8}{gone:>9}{mass:>11}{best:>9}{p:>10}{entropy:>9}{temperature:>10}{time:>13}  {remarks}"
    );
    writeln!(out, "{}", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_stage() {
        let candidate = |token, probability| Candidate { token, probability };
        let row = StageEffect {
            stage: "row".to_owned(),
            tokens: 128_256,
            mass: 1.0,
            gone: 0,
            removed: Vec::new(),
            border: None,
            best: candidate(3, 0.25),
            leading: vec![candidate(3, 0.25)],
            entropy: 10.5,
            temperature: 1.0,
            decision: None,
            nanoseconds: 98_765,
        };
        let xtc = StageEffect {
            stage: "xtc".to_owned(),
            tokens: 128_253,
            mass: 0.5,
            gone: 3,
            removed: vec![candidate(3, 0.25), candidate(7, 0.2)],
            best: candidate(9, 0.125),
            decision: Some("the coin says yes".to_owned()),
            nanoseconds: 1_234_567,
            ..row.clone()
        };
        let explanation =
            Explanation { stages: vec![row, xtc], token: 9, probability: 0.125, position: 4, seed: 42 };
        let mut text = Vec::new();
        table(&mut text, 2, &explanation).expect("written");
        let expected = [
            "stage             tokens     gone  mass kept     best   p(best)  entropy         T         time  went, most likely first",
            "row               128256        0   1.000000        3  0.250000   10.500    1.0000      98.8 µs",
            "xtc               128253        3   0.500000        9  0.125000   10.500    1.0000    1234.6 µs  the coin says yes; 3 (0.2500) 7 (0.2000) … 1 more",
            "row 2, position 4, seed 42: token 9, probability 0.125000",
        ];
        assert_eq!(String::from_utf8(text).expect("UTF-8").lines().collect::<Vec<_>>(), expected);
    }
}
