//! Greedy rows accept a guess if it is the best token, in every mode.

use onedraw::speculate::{Draft, Law, Probabilities, Verify};
use onedraw::{Batch, SamplingParams, Step};

use super::toy::{Toy, plain, speculate};

fn params() -> SamplingParams {
    SamplingParams {
        temperature: 0.0,
        repetition_penalty: 1.2,
        logprobs: Some(1),
        ..SamplingParams::default()
    }
}

#[test]
fn every_mode_writes_the_greedy_text() {
    let toy = Toy { seed: 31, vocabulary: 25, sharpness: 2.0 };
    let mut batch = Batch::new();
    let id = batch.add(SamplingParams { seed: Some(1), ..params() }).expect("parameters");
    let expected = plain(&toy, &mut batch, id, None, 20);
    let text = batch.output(id).expect("a text").to_vec();
    for verify in Verify::ALL {
        let id = batch.add(SamplingParams { seed: Some(1), ..params() }).expect("parameters");
        let (drawn, verdicts) = speculate(&toy, &mut batch, id, None, 20, verify, |batch, so_far| {
            // The guesses are right twice, then wrong, and come from laws with several tokens.
            let mut draft = Draft::default();
            let mut node = None;
            for ahead in 0..3 {
                let right = text.get(so_far.len() + ahead).copied().unwrap_or(0);
                let guess = if ahead < 2 { right } else { (right + 1) % 25 };
                let law =
                    Probabilities::new([(guess, 0.6), ((guess + 1) % 25, 0.3), ((guess + 24) % 25, 0.1)]);
                node = draft.grow(node, &[guess], Law::Drawn(law.expect("a law"))).pop();
            }
            assert!(batch.output(id).is_some());
            draft
        });
        assert_eq!(drawn, expected, "{verify}");
        assert_eq!(verdicts[0].path, [0, 1], "{verify}");
    }
}

#[test]
fn a_greedy_sequence_guesses_the_first_of_its_order() {
    let mut batch = Batch::new();
    let id = batch.add(params()).expect("parameters");
    let row = [0.5_f32, 3.0, f32::NEG_INFINITY, 2.0];
    let guess = |batch: &mut Batch, count| batch.guess(&Step::new(id, &row), count, 0);
    assert_eq!(guess(&mut batch, 2), Ok((vec![1, 3], Law::Given)));
    assert_eq!(guess(&mut batch, 9), Ok((vec![1, 3, 0], Law::Given)));
    assert_eq!(guess(&mut batch, 0), Ok((vec![], Law::Given)));
}
